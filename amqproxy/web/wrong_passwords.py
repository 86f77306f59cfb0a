"""Delay of wrong passwords by address, so that guessing is slow, while right ones are not delayed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from amqproxy.web.client_network import network_of

FAILURE_PAUSE = 0.5
"""Seconds before a wrong password is answered, one at a time per address, to slow down guessing."""

MAX_FAILURES = 10
"""Maximum number of unanswered wrong passwords per address; further attempts are refused unchecked."""

MAX_FAILING = 1000
"""Maximum number of addresses with unanswered wrong passwords; other addresses are refused unchecked."""

Found = TypeVar("Found")


class TooManyFailures(Exception):
    """Passwords are being guessed, from this address or from very many."""


class _Failures:
    """Unanswered wrong passwords of one address, and the lock that answers them in turn."""

    def __init__(self) -> None:
        self.count = 0
        self.turn = asyncio.Lock()


class WrongPasswords:
    """The addresses whose wrong passwords have not been answered yet.

    Wrong passwords of one address do not keep other addresses from logging in.
    """

    def __init__(self) -> None:
        self._failures: dict[str, _Failures] = {}

    def check_may_try(self, address: str) -> None:
        """Raise `TooManyFailures` if a login from the address would be refused unchecked."""
        failures = self._failures.get(network_of(address))
        if len(self._failures) >= MAX_FAILING if failures is None else failures.count >= MAX_FAILURES:
            raise TooManyFailures("too many wrong passwords: try again later")

    async def checked(self, address: str, check: Callable[[], Awaitable[Found | None]]) -> Found | None:
        """Return the login that `check` finds; `None`, after a delay, for a wrong password.

        `TooManyFailures` beyond the bounds, without a check, so that right passwords of the address are refused too.
        """
        self.check_may_try(address)
        network = network_of(address)
        failures = self._failures.get(network) or _Failures()
        found = await check()
        if found is not None:
            return found
        failures = self._failures.setdefault(network, failures)  # others may have failed during the check
        failures.count += 1
        try:
            async with failures.turn:
                await asyncio.sleep(FAILURE_PAUSE)
        finally:
            failures.count -= 1
            if not failures.count:
                self._failures.pop(network, None)
        return None

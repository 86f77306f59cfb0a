"""Tokens that addons make: functions in the group of entry points `amqproxy.tokens`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import trio

from amqproxy import addons
from amqproxy.process.supervision import describe
from amqproxy.proxy.logins.credential import CredentialFailed
from amqproxy.proxy.logins.renewed_token import NewToken
from amqproxy.proxy.logins.token_issuer import token_fault
from amqproxy.rules.rewriting.secret import Secret
from amqproxy.rules.suggestions import did_you_mean

TIMEOUT = 30.0
"""Time for a call of an addon, in seconds."""

TokenFunction = Callable[[str], Any]
"""Should return a token for an upstream, and its lifetime in seconds; called in a thread, and never twice at a time."""


def check_token_function(name: str, value: Any) -> None:
    """Raise `ValueError` for an addon that is not a function."""
    if not callable(value):
        raise ValueError("it is not a function")


class AddonTokens:
    """The tokens of one addon for an upstream."""

    def __init__(self, name: str, upstream: str, now: Callable[[], float] = time.time) -> None:
        """Raise `ValueError` if there is no such addon."""
        known = addons.loaded(addons.TOKENS, check_token_function)
        if name not in known:
            raise ValueError(f"no installed package has the tokens `{name}`{did_you_mean(name, list(known))}")
        self._make: TokenFunction = known[name]
        self._name = name
        self._upstream = upstream
        self._now = now
        self._threads = trio.CapacityLimiter(1)

    async def fetch(self) -> NewToken:
        """Return a new token; raise `CredentialFailed`."""
        asked = self._now()
        try:
            with trio.fail_after(TIMEOUT):
                token, lifetime = await trio.to_thread.run_sync(
                    self._make, self._upstream, limiter=self._threads, abandon_on_cancel=True
                )
            fault = token_fault(token)
            if fault is not None or not isinstance(lifetime, (int, float)) or not lifetime > 0:
                raise TypeError(f"its token is {fault}" if fault else "its lifetime is not a number of seconds above 0")
        except trio.TooSlowError:
            raise CredentialFailed(f"the addon {self._name} has made no token within {TIMEOUT:g} s") from None
        except Exception as error:  # noqa: BLE001 - code of others may raise anything
            addons.fail(addons.TOKENS, self._name, error)
            raise CredentialFailed(f"the addon {self._name} has failed: {describe(error)}") from None
        return NewToken(Secret(token), asked + lifetime)

"""Logins that were accepted lately, and those under way: equal ones are checked once."""

from __future__ import annotations

import hmac
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable

import trio

from amqproxy.proxy.logins.attempt import Identity, LoginAttempt, LoginDenied

LONGEST = 60.0
"""Longest time for which an accepted login is remembered, in seconds."""

MAX_ENTRIES = 10_000
"""Maximum number of remembered logins; the oldest ones are forgotten."""


class LoginMemory:
    """Accepted logins by a keyed hash of their credential, whose key no other process knows.

    `clock` is monotonic, in seconds; `time` is in seconds since 1970, for logins that expire.
    """

    def __init__(self, clock: Callable[[], float], time: Callable[[], float]) -> None:
        self._clock = clock
        self._time = time
        self._key = secrets.token_bytes(32)
        self._accepted: OrderedDict[bytes, tuple[Identity, float]] = OrderedDict()
        self._under_way: dict[bytes, _Check] = {}

    def __len__(self) -> int:
        return len(self._accepted)

    def forget(self) -> None:
        """Forget all logins, as passwords may have changed; checks under way are neither joined nor remembered."""
        self._accepted.clear()
        self._under_way.clear()

    async def recall(self, attempt: LoginAttempt, check: Callable[[], Awaitable[tuple[Identity, float]]]) -> Identity:
        """Return the identity of an equal attempt, or what `check` returns, which it remembers for that many seconds.

        Raise `LoginDenied` if it does; attempts that were refused are not remembered.
        """
        key = self._digest(attempt)
        while True:
            found = self._accepted.get(key)
            if found is not None and self._clock() < found[1] and self._time() < found[0].expires_at:
                return found[0]
            running = self._under_way.get(key)
            if running is None:
                return await self._check(key, check)
            await running.ended.wait()
            if running.identity is not None:
                return running.identity
            if running.denied is not None:
                raise running.denied.copy()
            # the client for which it ran is gone, so that another attempt runs it

    async def _check(self, key: bytes, check: Callable[[], Awaitable[tuple[Identity, float]]]) -> Identity:
        running = self._under_way[key] = _Check()
        try:
            identity, seconds = await check()
        except LoginDenied as denied:
            running.denied = denied
            raise
        else:
            running.identity = identity
            if seconds > 0 and self._under_way.get(key) is running:
                self._accepted[key] = identity, self._clock() + min(seconds, LONGEST)
                self._accepted.move_to_end(key)
                if len(self._accepted) > MAX_ENTRIES:
                    self._accepted.popitem(last=False)
            return identity
        finally:
            if self._under_way.get(key) is running:
                del self._under_way[key]
            running.ended.set()

    def _digest(self, attempt: LoginAttempt) -> bytes:
        parts = ("EXTERNAL" if attempt.mechanism == "EXTERNAL" else "", attempt.user, attempt.password.reveal())
        encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
        return hmac.digest(self._key, b"".join(len(part).to_bytes(8) + part for part in encoded), "sha256")


class _Check:
    """A check under way, and its result; without one after its end, it was cancelled or failed."""

    __slots__ = ("denied", "ended", "identity")

    def __init__(self) -> None:
        self.ended = trio.Event()
        self.identity: Identity | None = None
        self.denied: LoginDenied | None = None

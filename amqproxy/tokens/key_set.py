"""The keys with which an issuer signs its tokens (JWKS, RFC 7517), from its server or a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio

from amqproxy.configuration.resources import ConfigResources
from amqproxy.configuration.token_config import TokenKeys
from amqproxy.process.log import logger
from amqproxy.tokens.token_claims import WrongToken, decoded
from amqproxy.tokens.web_client import WebClient, WebFailed

PAUSE = 10.0
"""Shortest time between two fetches that tokens with an unknown key cause, in seconds."""

RETRY = 15.0
"""Longest time between two fetches after a failure, in seconds."""

TIMEOUT = 5.0
"""Time for an answer of the issuer, in seconds."""

MAX_KEYS = 100
"""Maximum number of keys that are taken from a set."""

MIN_BITS, MAX_BITS = 2048, 8192
"""Bounds of an RSA key: shorter ones can be broken, and longer ones take long."""

KINDS = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
"""Kinds of keys by the beginning of the algorithm; a key is never used for another kind of signature."""


class KeySet:
    """Public keys by id. `client` is what asks a server for them."""

    def __init__(self, config: TokenKeys, client: WebClient | None) -> None:
        self._config = config
        self._client = client
        self._keys: list[Any] = []
        self._began = float("-inf")
        self._fetching = trio.Lock()
        self._is_wanted = trio.Event()
        self.fault = "the keys have not been fetched"
        """The reason why the last fetch failed, or ""."""
        self.on_change: Callable[[], None] = lambda: None

    async def keys_for(self, kid: str | None, algorithm: str) -> list[Any]:
        """Return the keys that may have signed a token with this key id, or without one.

        For an unknown id the set is fetched again, unless that was done within the last 10 s.
        """
        found = self._found(kid, algorithm)
        if found or (kid is None and not self.fault):
            return found
        async with self._fetching:
            found = self._found(kid, algorithm)
            if not found and trio.current_time() - self._began >= PAUSE:
                await self._fetch()
                found = self._found(kid, algorithm)
        return found

    def known(self, kid: str | None, algorithm: str) -> list[Any]:
        """Return the keys like `keys_for`, without waiting: for an unknown id, `run` fetches the set again."""
        found = self._found(kid, algorithm)
        if not found:
            self._is_wanted.set()
        return found

    async def run(self) -> None:
        """Fetch the keys now and after each `refresh`, sooner after a failure or for an unknown key; forever."""
        while True:
            self._is_wanted = trio.Event()
            async with self._fetching:
                await self._fetch()
            pause = min(self._config.refresh, RETRY) if self.fault else self._config.refresh
            await trio.sleep(min(PAUSE, pause))
            with trio.move_on_after(max(0.0, pause - PAUSE)):
                await self._is_wanted.wait()

    def _found(self, kid: str | None, algorithm: str) -> list[Any]:
        kind = KINDS[algorithm[:2]]
        return [
            key
            for key in self._keys
            if key.key_type == kind
            and (kid is None or key.kid == kid)
            and key.get("alg", algorithm) == algorithm
            and key.get("use", "sig") == "sig"
        ]

    async def _fetch(self) -> None:
        self._began = trio.current_time()
        try:
            keys = public_keys(await self._document())
        except (WebFailed, WrongToken, ValueError) as error:
            fault = f"the key set cannot be read: {error}"
            if fault != self.fault:
                self.fault = fault
                logger().error("keys not fetched", keys=self._config.keys, reason=str(error))
            return
        before = {key.thumbprint() for key in self._keys}
        self._keys, self.fault = keys, ""
        if before != {key.thumbprint() for key in keys}:
            logger().info("keys fetched", keys=self._config.keys, count=len(keys))
            self.on_change()

    async def _document(self) -> bytes:
        if self._client is None:
            resources = ConfigResources(Path())
            text = await trio.to_thread.run_sync(resources.text, self._config.keys, abandon_on_cancel=True)
            return text.encode()
        answer = await self._client.get(self._config.keys, TIMEOUT)
        if answer.status != 200:
            raise WebFailed(f"the answer has the status {answer.status}")
        return answer.body


def public_keys(document: bytes) -> list[Any]:
    """Return the usable keys of a set; symmetric ones, and those of unknown kinds, are left out.

    Raise `ValueError` if it is not a key set.
    """
    from joserfc.jwk import import_key

    entries = decoded(document).get("keys")
    if not isinstance(entries, list):
        raise ValueError("it has no list `keys`")
    found: list[Any] = []
    for entry in entries:
        if len(found) == MAX_KEYS:
            break
        if not isinstance(entry, dict) or entry.get("kty") not in KINDS.values():
            continue
        modulus = entry.get("n", "")
        if entry["kty"] == "RSA" and not (
            isinstance(modulus, str) and MIN_BITS // 6 - 2 <= len(modulus) <= MAX_BITS // 6 + 2
        ):
            continue
        try:
            key = import_key(entry)
            key.check_key_op("verify")  # its material is read by now, too
        except Exception:  # noqa: BLE001 - whatever joserfc raises, the other keys are usable
            continue
        found.append(key)
    if not found:
        raise ValueError("it has no public key for signatures")
    return found

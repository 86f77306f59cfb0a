"""The proxy's own credential in a file, which another program replaces, or in a variable."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import trio

from amqproxy.configuration.resources import ConfigResources
from amqproxy.process.log import logger
from amqproxy.process.watched_files import WatchedFiles
from amqproxy.proxy.logins.credential import Credential, CredentialFailed
from amqproxy.proxy.logins.successors import Renewed, Successors
from amqproxy.rules.rewriting.secret import Secret
from amqproxy.tokens.token_claims import expiry_of

INTERVAL = 2.0
"""Seconds between two looks for changes of the file."""


class FixedCredential:
    """`CredentialSource` of a credential that never changes."""

    def __init__(self, credential: Credential) -> None:
        self._credential = credential
        self.fault = ""

    async def current(self) -> Credential:
        return self._credential

    def subscribe(self, renewed: Renewed) -> Callable[[], None]:
        return lambda: None

    async def run(self) -> None:
        """Return: there is nothing to do."""


class CredentialFile:
    """`CredentialSource` of a password or a token in a file, which is read again when it changes.

    A file that is missing, empty or unreadable keeps the last credential in force, as long as that has not expired.
    `upstream` is for the log.
    """

    def __init__(
        self, upstream: str, user: str, path: str, *, is_token: bool, now: Callable[[], float] = time.time
    ) -> None:
        self._upstream = upstream
        self._user = user
        self._path = path
        self._is_token = is_token
        self._now = now
        self._watched = WatchedFiles(lambda: [path])
        self._successors = Successors()
        self._credential: Credential | None = None
        self._reading = trio.Lock()
        self.fault = ""
        """The reason why the file could not be read last, or ""."""
        self._watched.have_changed()
        self._take(self._read())

    async def current(self) -> Credential:
        if not self._is_valid():
            async with self._reading:
                if not self._is_valid():  # no other login has read it meanwhile
                    await self._read_again()
        if self._credential is None:
            raise CredentialFailed(self.fault)
        if not self._is_valid():
            raise CredentialFailed(f"the token in {self._path} has expired")
        return self._credential

    def subscribe(self, renewed: Renewed) -> Callable[[], None]:
        return self._successors.subscribe(renewed)

    async def run(self) -> None:
        """Read the file again when it changes, forever. A thread reads the disk, which may hang."""
        threads = trio.CapacityLimiter(1)
        while True:
            await trio.sleep(INTERVAL)
            is_new = await trio.to_thread.run_sync(self._watched.have_changed, limiter=threads, abandon_on_cancel=True)
            if is_new or self._credential is None:
                async with self._reading:
                    await self._read_again()

    def _is_valid(self) -> bool:
        return self._credential is not None and self._now() < self._credential.expires_at

    async def _read_again(self) -> None:
        self._take(await trio.to_thread.run_sync(self._read, abandon_on_cancel=True))

    def _read(self) -> str | ValueError:
        try:
            text = ConfigResources(Path()).text(self._path).strip("\r\n")
        except ValueError as error:
            return error
        return text or ValueError(f"{self._path} is empty")

    def _take(self, found: str | ValueError) -> None:
        """Take in the content of the file, if it has changed."""
        if isinstance(found, ValueError):
            if str(found) != self.fault:
                self.fault = str(found)
                logger().error("credential not read", upstream=self._upstream, reason=self.fault)
            return
        self.fault = ""
        expires_at = expiry_of(found) if self._is_token else float("inf")
        credential = Credential(self._user, Secret(found), self._is_token, expires_at)
        if credential == self._credential:
            return
        is_first, self._credential = self._credential is None, credential
        if not is_first:
            logger().info("credential reloaded", upstream=self._upstream)
            self._successors.publish(credential)

"""The users of a file, with their logins to brokers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import trio

from amqproxy.configuration.config import ConfigError
from amqproxy.configuration.resources import ConfigResources
from amqproxy.configuration.users_file import FileUser, read_users
from amqproxy.process.log import logger
from amqproxy.process.watched_files import WatchedFiles
from amqproxy.proxy.logins.attempt import Identity, LoginAttempt, LoginDenied
from amqproxy.proxy.logins.credential import Credential
from amqproxy.proxy.logins.fair_turns import FairTurns
from amqproxy.proxy.logins.password_hash import NotChecked, decoy, is_right
from amqproxy.rules.rewriting.secret import Secret

INTERVAL = 2.0
"""Seconds between two looks for changes of the file."""

REMEMBERED = 60.0
"""Time in seconds for which a right password is not checked again."""


class User(msgspec.Struct, frozen=True):
    """A user of the file: the hash of the password, the virtual hosts, and the login to the broker, if it has these."""

    name: str
    hashed: Secret | None
    tags: tuple[str, ...]
    vhosts: tuple[str, ...] | None
    credential: Credential | None

    def identity(self, source: str) -> Identity:
        """Return this user, who has logged in by `source`."""
        return Identity(self.name, source, self.tags, self.credential)


class Users:
    """Users by name and by the name in their certificate, as the file had them when it was read."""

    def __init__(self, users: dict[str, FileUser]) -> None:
        """Raise `ConfigError` if a user's password for brokers cannot be read."""
        resources = ConfigResources(Path())
        self.by_name = {name: _user(name, each, resources) for name, each in users.items()}
        self.by_certificate = {each.certificate: self.by_name[name] for name, each in users.items() if each.certificate}
        self.files = tuple(each.upstream_password_file for each in users.values() if each.upstream_password_file)
        hashes = [each.hashed.reveal() for each in self.by_name.values() if each.hashed is not None]
        (usual, _), *_ = Counter(decoy(each) for each in hashes).most_common(1) or [(decoy(""), 0)]
        self.decoy = usual


def _user(name: str, user: FileUser, resources: ConfigResources) -> User:
    credential = None
    if user.upstream_user:
        try:
            if user.upstream_password_file:
                text = resources.text(user.upstream_password_file)
            else:
                text = resources.variable(user.upstream_password_env)
        except ValueError as error:
            raise ConfigError(f"users.{name}: {error}") from None
        credential = Credential(user.upstream_user, Secret(text.rstrip("\r\n")))
    return User(name, Secret(user.password) if user.password else None, user.tags, user.vhosts, credential)


class UserDirectory:
    """Checks of passwords and certificates by the users of a file, which is read again when it changes.

    `turns` bounds the checks of passwords at the same time; `on_change` is called after the file was read again.
    """

    def __init__(self, path: str, turns: FairTurns) -> None:
        """Raise `ConfigError` if the file is invalid."""
        self._path = Path(path)
        self._turns = turns
        self._watched = WatchedFiles(self._files)
        self._users: Users | None = None
        self._fault = ""
        self._watched.have_changed()
        self._users = self._read()
        self._watched.have_changed()
        self.on_change: Callable[[], None] = lambda: None

    @property
    def users(self) -> Users:
        """The users of the last valid version of the file."""
        assert self._users is not None
        return self._users

    async def check_password(self, attempt: LoginAttempt, network: str) -> tuple[Identity, float]:
        """Return the identity, and how long it may be remembered; raise `LoginDenied`.

        A user who is unknown, or has no password, takes the time of one with a wrong password.
        """
        users = self.users
        user = users.by_name.get(attempt.user)
        hashed = users.decoy if user is None or user.hashed is None else user.hashed.reveal()
        async with self._turns.turn(network):
            # Not abandoned when the client goes: the turn lasts as long as the thread works.
            try:
                is_same = await trio.to_thread.run_sync(is_right, hashed, attempt.password.reveal())
            except NotChecked as error:
                raise LoginDenied(str(error), source="file", is_failure=True) from None
        if user is None:
            raise LoginDenied("there is no such user", source="file")
        if user.hashed is None:
            raise LoginDenied("the user has no password", source="file")
        if not is_same:
            raise LoginDenied("the password is wrong", source="file")
        return user.identity("file"), REMEMBERED

    async def run(self) -> None:
        """Read the file again when it changes, forever. A thread reads the disk, which may hang."""
        threads = trio.CapacityLimiter(1)
        while True:
            await trio.sleep(INTERVAL)
            if await trio.to_thread.run_sync(self._watched.have_changed, limiter=threads, abandon_on_cancel=True):
                await self._read_again(threads)

    async def _read_again(self, threads: trio.CapacityLimiter) -> None:
        try:
            users = await trio.to_thread.run_sync(self._read, limiter=threads, abandon_on_cancel=True)
        except ConfigError as error:
            if str(error) != self._fault:
                self._fault = str(error)
                logger().error("users not reloaded", reason=self._fault)
            return
        self._users, self._fault = users, ""
        self.on_change()
        logger().info("users reloaded", file=str(self._path), users=len(users.by_name))

    def _read(self) -> Users:
        try:
            return Users(read_users(self._path))
        except ConfigError as error:
            text = str(error)
            raise ConfigError(text if str(self._path) in text else f"{self._path}: {text}") from None

    def _files(self) -> Iterator[str]:
        yield str(self._path)
        if self._users is not None:
            yield from self._users.files

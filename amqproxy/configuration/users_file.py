"""The file with users of a `[logins.NAME]`: TOML or YAML, with a table `users`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from amqproxy.configuration.config import ConfigError
from amqproxy.configuration.config_file import data_of, explained, placed_fault
from amqproxy.configuration.resources import ConfigResources
from amqproxy.configuration.values import Strict

MAX_MEMORY = 256 * 1024
"""Most memory of one argon2id hash, in KiB."""

MAX_WORK = 4 * 1024 * 1024
"""Most work of one argon2id hash: its memory in KiB, times its passes over it. This takes about 3 s."""

_HASH = re.compile(r"\$argon2id\$v=19\$m=(\d{1,9}),t=(\d{1,9}),p=([1-8])\$[A-Za-z0-9+/]{11,86}\$[A-Za-z0-9+/]{16,172}")


class FileUser(Strict, frozen=True):
    """One user of the file."""

    password: str = ""
    """The argon2id hash of the password, as `amqproxy hash-password` writes it; without it, no password is right."""
    certificate: str = ""
    """The name in the client certificate with which this user logs in by EXTERNAL."""
    tags: tuple[str, ...] = ()
    """Tags, for rules and the log."""
    vhosts: tuple[str, ...] | None = None
    """The virtual hosts that the user may open; by default, all that the broker allows."""
    upstream_user: str = ""
    """The user as which the proxy logs in to the broker for this one; by default, that of the upstream's `login`."""
    upstream_password_file: str = ""
    """A file with its password."""
    upstream_password_env: str = ""
    """The environment variable with its password."""

    def __post_init__(self) -> None:
        # The errors leave the value out: whoever writes the password itself here has told it to no log so far.
        if self.password:
            found = _HASH.fullmatch(self.password)
            if found is None:
                raise ValueError(".password: it is not an argon2id hash: make one with `amqproxy hash-password`")
            memory, passes, lanes = map(int, found.groups())
            if not 8 * lanes <= memory <= MAX_MEMORY or passes < 1 or memory * passes > MAX_WORK:
                raise ValueError(
                    f".password: checking it takes {memory} KiB {passes} times: at most {MAX_MEMORY} KiB,"
                    f" and {MAX_WORK} KiB in all, are allowed"
                )
        passwords = bool(self.upstream_password_file) + bool(self.upstream_password_env)
        if passwords != bool(self.upstream_user):
            raise ValueError(
                "an `upstream_user` needs either an `upstream_password_file` or an `upstream_password_env`, which need"
                " an `upstream_user`"
            )


def read_users(path: Path) -> dict[str, FileUser]:
    """Return the users of a file by name, with their file names resolved; raise `ConfigError` if it is invalid."""
    try:
        text = ConfigResources(Path()).text(str(path))
    except ValueError as error:
        raise ConfigError(str(error)) from None
    data = data_of(text, path)
    users = _users(data, text, path)
    found: dict[str, FileUser] = {}
    certificates: dict[str, str] = {}
    for name, entry in users.items():
        user = _user(name, entry, text, path)
        if user.certificate:
            other = certificates.setdefault(user.certificate, name)
            if other != name:
                fault = f"users.{name}.certificate: {user.certificate} is that of {other} already"
                raise ConfigError(placed_fault(fault, text, path, data))
        if user.upstream_password_file:
            user = msgspec.structs.replace(user, upstream_password_file=str(path.parent / user.upstream_password_file))
        found[name] = user
    return found


def _users(data: Any, text: str, path: Path) -> Mapping[str, Any]:
    if not isinstance(data, dict) or not isinstance(data.get("users", {}), dict):
        raise ConfigError(f"{path}: it needs a table for each user, such as [users.orders]")
    for key in data:
        if key != "users":
            raise ConfigError(placed_fault(f"{key}: unknown key: a table of a user is [users.NAME]", text, path, data))
    users: dict[Any, Any] = data.get("users", {})
    for name in users:
        if not isinstance(name, str) or not name:
            raise ConfigError(f"{path}: users: each user needs a name that is a text")
    return users


def _user(name: str, entry: Any, text: str, path: Path) -> FileUser:
    try:
        return msgspec.convert(entry, FileUser)
    except msgspec.ValidationError as error:
        fault = explained(error, FileUser, entry)
        place = f"users.{name}"
        key = re.match(r"[a-z_]+(\[\d+\])?: ", fault)
        fault = f"{place}.{fault}" if key and key[0] != "unknown key: " else f"{place}: {fault}"
        raise ConfigError(placed_fault(fault, text, path, {})) from None

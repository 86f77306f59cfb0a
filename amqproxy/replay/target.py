"""The broker that a capture is played against, as given by a URL."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

import msgspec

from amqproxy.configuration.values import join_address

_PORTS = {"amqp": 5672, "amqps": 5671}


class TargetError(ValueError):
    """Raised for a URL that does not name a broker."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A broker with its login. Without a `virtual_host`, each connection opens the recorded one."""

    host: str = "127.0.0.1"
    port: int = 5672
    is_tls: bool = False
    user: str = "guest"
    password: str = "guest"
    virtual_host: str | None = None

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return join_address(self.host, self.port)


def parse_target(url: str, *, password: str | None = None) -> Target:
    """Parse an amqp:// or amqps:// URL. `TargetError` gives the reason, without the password.

    `password` is used for a user without one in the URL.
    """
    parts = urlsplit(url)
    if parts.scheme not in _PORTS:
        raise TargetError("a broker's URL begins with amqp:// or amqps://")
    try:
        port = parts.port
    except ValueError:
        raise TargetError("the port is a number up to 65535") from None
    if not parts.hostname:
        raise TargetError("the URL names no host")
    if parts.query or parts.fragment:
        raise TargetError("the URL has nothing behind the virtual host")
    if parts.password is not None:
        password = unquote(parts.password)
    elif parts.username is None or password is None:
        password = "guest"
    return Target(
        host=parts.hostname,
        port=_PORTS[parts.scheme] if port is None else port,
        is_tls=parts.scheme == "amqps",
        user="guest" if parts.username is None else unquote(parts.username),
        password=password,
        virtual_host=unquote(parts.path[1:]) or None,
    )

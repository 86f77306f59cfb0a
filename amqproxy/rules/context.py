"""Facts that a rule can read when it decides: the command, its sender, and the client's connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from amqproxy.amqp091.commands import MAX_BODY, Command
from amqproxy.amqp091.transitions import CLIENT, Peer
from amqproxy.conversion.client_name import given_name


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about the client of a session. `user` is "" before start-ok, `vhost` is "" before open.

    `address` is the client's address without its port; `listener` and `upstream` are HOST:PORT; `properties` are the
    client properties, with tables as dictionaries; `tls_subject` is the subject of the client certificate, `sni` the
    server name that the client requested. `mechanism` is the SASL mechanism, if later responses may name the user.
    `identity` is the name of a client that has logged in at the proxy, which may differ from the one in its login.
    """

    session: int = 0
    address: str = ""
    port: int = 0
    listener: str = ""
    upstream: str = ""
    tls_subject: str = ""
    sni: str = ""
    user: str = ""
    mechanism: str = ""
    identity: str = ""
    vhost: str = ""
    properties: Mapping[str, Any] = {}

    @classmethod
    def named(cls, session: int, name: str) -> Client:
        """Return the client of a connection name such as `10.0.0.1:50123-10.0.0.2:5672`."""
        here, _, there = name.partition("-")
        host, _, port = here.rpartition(":")
        number = int(port) if port.isdigit() else 0
        return cls(session=session, address=host.strip("[]"), port=number, listener=there, upstream=there)

    def learned(self, *, identity: str = "", upstream: str = "") -> Client:
        """Return the client with what a login at the proxy has shown: who it is, and which broker serves it."""
        return msgspec.structs.replace(
            self,
            identity=identity or self.identity,
            user=identity or self.user,
            upstream=upstream or self.upstream,
        )

    @property
    def name(self) -> str:
        """Connection name from the client properties; "" if there is none."""
        return given_name(self.properties)

    def announced(self, capability: str) -> bool:
        """Whether the client announced a capability, such as "connection.blocked"."""
        capabilities = self.properties.get("capabilities")
        return isinstance(capabilities, Mapping) and capabilities.get(capability) is True


class ChannelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """State of a command's channel on the client's leg, before the command."""

    number: int = 0
    is_confirming: bool = False
    is_transactional: bool = False
    consumers: int = 0
    unacked: int = 0
    """Number of unacknowledged deliveries of the client; counted only if a rule reads it."""
    is_by_credit: bool = False
    """Whether consumers receive nothing before the client has granted credit."""


class BodyTooLarge(Exception):
    """Raised if a body of `size` bytes is larger than `limit`, the most that rules may read without blocking others."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"message size {size} is larger than the {limit} bytes that rules can read")
        self.size = size
        self.limit = limit


class CommandContext(msgspec.Struct, frozen=True, kw_only=True):
    """One command of `sender`, as earlier rules changed it.

    `now` is in seconds of a monotonic clock, `time` in seconds since 1970. `random` draws from [0, 1). Parts that no
    rule needs may be missing, for example the header of a command that is evaluated at its method.
    """

    sender: Peer
    command: Command
    client: Client
    channel: ChannelInfo = ChannelInfo()
    now: float = 0.0
    time: float = 0.0
    random: Callable[[], float] = lambda: 0.0
    shown: Command | None = None
    """Command as taps see it, if earlier rules redacted it."""
    tags: tuple[str, ...] = ()
    """Tags that earlier rules added."""
    body_limit: int = MAX_BODY
    """Largest body that rules can read, in bytes."""

    def check_size(self, size: int) -> None:
        """Raise `BodyTooLarge` if a body has more bytes than rules can read."""
        if size > self.body_limit:
            raise BodyTooLarge(size, self.body_limit)

    @property
    def is_from_client(self) -> bool:
        return self.sender is CLIENT

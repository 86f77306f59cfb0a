"""What a rule may know when it decides: the command, who sent it, and the client's connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from amqproxy.amqp091.commands import MAX_BODY, Command
from amqproxy.amqp091.transitions import CLIENT, Peer
from amqproxy.conversion.client_name import given_name


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one session. `user` is "" before start-ok, `vhost` before open.

    `address` is the client's, without its port; `listener` and `upstream` are HOST:PORT; `properties` are the client's
    own, tables as dictionaries; `tls_subject` is its certificate's, `sni` the server name that it asked for. Of
    0-10, `mechanism` is that of SASL: its later answers may name the user.
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
    vhost: str = ""
    properties: Mapping[str, Any] = {}

    @classmethod
    def named(cls, session: int, name: str) -> Client:
        """What is known of a client by the name of its connection: `10.0.0.1:40000-10.0.0.2:5672`."""
        here, _, there = name.partition("-")
        host, _, port = here.rpartition(":")
        number = int(port) if port.isdigit() else 0
        return cls(session=session, address=host.strip("[]"), port=number, listener=there, upstream=there)

    @property
    def name(self) -> str:
        """The name that the client's properties give its connection; "" if there is none."""
        return given_name(self.properties)

    def announced(self, capability: str) -> bool:
        """Did the client announce a capability, such as "connection.blocked"?"""
        capabilities = self.properties.get("capabilities")
        return isinstance(capabilities, Mapping) and capabilities.get(capability) is True


class ChannelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """How the channel of a command stands on the client's leg, before the command."""

    number: int = 0
    is_confirming: bool = False
    is_transactional: bool = False
    consumers: int = 0
    unacked: int = 0
    """Deliveries that the client has yet to settle; counted only when a rule asks for it."""
    is_by_credit: bool = False
    """Does a consumer get nothing before it has given credit, as in AMQP 0-10?"""


class BodyTooLarge(Exception):
    """A body of `size` bytes, into which no rule looks, since that would hold everybody up; `limit` is the most."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"message size {size} is larger than the {limit} bytes that rules look into")
        self.size = size
        self.limit = limit


class CommandContext(msgspec.Struct, frozen=True, kw_only=True):
    """One command of `sender`, as the rules before have left it.

    `now` is in seconds of a steady clock, `time` in seconds since 1970. `random` draws from [0, 1). What was not waited
    for, since no rule needed it, is not there, for example the header of a command evaluated at its method.
    """

    sender: Peer
    command: Command
    client: Client
    channel: ChannelInfo = ChannelInfo()
    now: float = 0.0
    time: float = 0.0
    random: Callable[[], float] = lambda: 0.0
    shown: Command | None = None
    """The command as the rules before let taps see it, where that differs."""
    tags: tuple[str, ...] = ()
    """The words that the rules before have given it."""
    body_limit: int = MAX_BODY
    """The bytes of the largest body into which rules may look."""

    def check_size(self, size: int) -> None:
        """`BodyTooLarge` for a body of more bytes than rules may look into."""
        if size > self.body_limit:
            raise BodyTooLarge(size, self.body_limit)

    @property
    def is_from_client(self) -> bool:
        return self.sender is CLIENT

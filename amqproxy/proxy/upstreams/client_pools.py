"""The interface of the pools of an upstream group: connections that its clients share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol

from amqproxy.proxy.logins.credential import Credential, CredentialSource
from amqproxy.proxy.logins.login_check import Login
from amqproxy.proxy.upstreams.member import Member
from amqproxy.proxy.upstreams.reach import MemberLogin, Reached
from amqproxy.rules.context import Client
from amqproxy.sockets.transport import Transport
from amqproxy.taps.shared_legs import SharedLegs

LOGIN_TIMEOUT = 10.0
"""Seconds for a member to accept, to answer, to log in and to open the virtual host; RabbitMQ waits no longer either.

Many clients wait for the attempt, of which none could end it.
"""


class Connect(NamedTuple):
    """Access to the brokers of a group.

    `candidates` returns its members in the order for a client; `reach` connects to the first of these that lets the
    proxy log in, within `LOGIN_TIMEOUT` for each.
    """

    candidates: Callable[[Client], list[Member]]
    reach: Callable[[list[Member], MemberLogin], Awaitable[Reached]]


class Pinning(NamedTuple):
    """Means to give a client a connection of its own.

    `dial` connects it to a member by itself, and returns the connection with the broker's answer to connection.open;
    `settle` is called, with the reason, when the relays can use that connection directly.
    """

    dial: Callable[[Member], Awaitable[tuple[Transport, bytes]]]
    settle: Callable[[str], None]


class Leased(NamedTuple):
    """A client's place on a connection to `member`, and the answer to its connection.open."""

    transport: Transport
    answer: bytes
    member: Member


class ClientPools(Protocol):
    """The pools of one group, for the clients of one `PROTOCOL`.

    `login` is the login of clients that do not log in at the proxy itself; `source` has the proxy's own credentials, if
    there are any; `connect`, `legs`, by which the shared connections are shown, and `start`, which runs a task in the
    background, are set by the owner.
    """

    PROTOCOL: str
    login: Login
    source: CredentialSource | None
    connect: Connect | None
    legs: SharedLegs
    start: Callable[[Callable[[], Awaitable[object]]], None]

    def apply(self, config: Any, source: CredentialSource | None) -> None:
        """Apply a configuration, and the proxy's own credentials."""

    async def lease(self, client: Client, credential: Credential, handshake: Any, pinning: Pinning) -> Leased:
        """Return a place for a client that opens its virtual host by a handshake of its protocol."""

    def retire(self) -> None:
        """Take no more clients on any connection."""

    def keep(self) -> None:
        """Close what is not needed any more."""

    @property
    def is_empty(self) -> bool:
        """Whether no connection is open, or being opened."""

    def report(self) -> list[dict[str, Any]]:
        """Return the state of each pool."""

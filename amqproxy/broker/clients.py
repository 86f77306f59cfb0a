"""Interfaces through which the broker sees its clients' connections and channels, implemented in higher packages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.broker.access.users import User
from amqproxy.broker.paging import Pageable
from amqproxy.broker.vhost import VirtualHost


class ClientUnacked(Pageable, Protocol):
    """Unacknowledged deliveries of one channel."""

    @property
    def oldest(self) -> int: ...


class ClientDeliveries(Protocol):
    """Deliveries of one channel."""

    @property
    def unacked(self) -> ClientUnacked: ...

    @property
    def last_tag(self) -> int: ...

    @property
    def bytes_in_memory(self) -> int:
        """Approximate bytes of memory of its consumers and of `unacked`."""


class ClientChannel(Protocol):
    """One channel of a connection."""

    @property
    def number(self) -> int: ...

    @property
    def connection(self) -> ConnectedClient: ...

    @property
    def deliveries(self) -> ClientDeliveries: ...


class ConnectedClient(Protocol):
    """One client's connection; `connections.client_connection` documents its methods."""

    @property
    def name(self) -> str: ...

    @property
    def vhost(self) -> VirtualHost | None: ...

    @property
    def channels(self) -> Mapping[int, ClientChannel]: ...

    @property
    def bytes_arriving(self) -> int:
        """Bytes received of incomplete messages and commands."""

    @property
    def is_over(self) -> bool: ...

    @property
    def is_blocked(self) -> bool: ...

    def is_of(self, user: User, /) -> bool: ...

    def is_named(self, name: str, /) -> bool: ...

    def tick(self, now: float, /) -> None: ...

    def alarms_changed(self, now: float, /) -> None: ...

    def end_channel(self, number: int, error: ProtocolError, now: float, /) -> None: ...

    def close(self, reason: str, now: float, /) -> None: ...

    def give_up(self, now: float, /) -> None: ...

    def cut(self) -> None: ...


class NamedSession(Protocol):
    """A named session, to which a client may attach again."""

    @property
    def user(self) -> User:
        """The user whose client has attached to the session last."""

    @property
    def bytes_kept(self) -> int:
        """Bytes of memory of the session beyond those counted for a connection's channel."""

    def take_over(self, now: float, /) -> None:
        """Detach the session from its connection and end it."""

"""What the broker knows of its clients' connections and their channels, which are floors above it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.broker.access.users import User
from amqproxy.broker.queues.paging import Pageable
from amqproxy.broker.vhost import VirtualHost


class ClientUnacked(Pageable, Protocol):
    """What the client has not settled on one channel."""

    @property
    def oldest(self) -> int: ...


class ClientDeliveries(Protocol):
    """What the client was sent on one channel."""

    @property
    def unacked(self) -> ClientUnacked: ...

    @property
    def last_tag(self) -> int: ...

    @property
    def bytes_in_memory(self) -> int:
        """About how many bytes of memory its consumers and `unacked` take."""


class ClientChannel(Protocol):
    """One channel of a connection."""

    @property
    def number(self) -> int: ...

    @property
    def connection(self) -> ConnectedClient: ...

    @property
    def deliveries(self) -> ClientDeliveries: ...


class ConnectedClient(Protocol):
    """One client's connection; `connections.client_connection` has what its methods do."""

    @property
    def name(self) -> str: ...

    @property
    def vhost(self) -> VirtualHost | None: ...

    @property
    def channels(self) -> Mapping[int, ClientChannel]: ...

    @property
    def bytes_arriving(self) -> int:
        """Bytes of messages and commands that have come, and whose rest has not."""

    @property
    def is_over(self) -> bool: ...

    @property
    def is_blocked(self) -> bool: ...

    def is_of(self, user: User, /) -> bool: ...

    def tick(self, now: float, /) -> None: ...

    def alarms_changed(self, now: float, /) -> None: ...

    def end_channel(self, number: int, error: ProtocolError, now: float, /) -> None: ...

    def close(self, reason: str, now: float, /) -> None: ...

    def give_up(self, now: float, /) -> None: ...

    def cut(self) -> None: ...


class NamedSession(Protocol):
    """A session with a name, to which a client may attach again."""

    @property
    def bytes_kept(self) -> int:
        """Bytes of memory that it takes beside what the channel of a connection does."""

    def take_over(self, now: float, /) -> None:
        """Detach it from its connection, and let it end."""

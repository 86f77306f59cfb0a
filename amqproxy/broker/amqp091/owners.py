"""Interfaces through which a channel sees its connection, and a channel's parts see the channel."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from amqproxy.amqp091.methods import Method
from amqproxy.amqp091.wire import Table
from amqproxy.broker.access.users import User
from amqproxy.broker.broker import Broker
from amqproxy.broker.clients import ConnectedClient
from amqproxy.broker.connections.output import OutputBuffer
from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.storage.journal import Journal
from amqproxy.broker.work import Job


class Confirming(Protocol):
    """A publisher with messages to confirm at the end of a turn."""

    def confirm(self) -> None: ...


class OwningConnection(ConnectedClient, Protocol):
    """The connection of a channel; the module `connection` documents its methods."""

    @property
    def broker(self) -> Broker: ...

    @property
    def user(self) -> User: ...

    @property
    def output(self) -> OutputBuffer: ...

    @property
    def exclusive_queues(self) -> dict[Queue, None]: ...

    def do(self, job: Job, now: float, /) -> None: ...

    def send_method(self, channel: int, method: Method, /) -> None: ...

    def answer_when_kept(self, journal: Journal, channel: int, answer: Method, /) -> None: ...

    def notify_cancelled(self, channel: int, consumer_tag: str, /) -> None: ...

    def notices_held(self) -> AbstractContextManager[None]: ...

    def to_confirm(self, publisher: Confirming, /) -> None: ...

    def fail_soon(self) -> None: ...


class OwningChannel(Protocol):
    """The channel of a publisher and of deliveries; a `ClosedChannel` once it is closed."""

    @property
    def connection(self) -> OwningConnection: ...

    @property
    def number(self) -> int: ...

    @property
    def place(self) -> Table: ...

    @property
    def reply_tag(self) -> str | None: ...

    @property
    def reply_name(self) -> str: ...

    @property
    def is_open(self) -> bool: ...

"""Interfaces that owners offer: the session to its deliveries and publisher, the connection to its sessions."""

from __future__ import annotations

from typing import Protocol

from amqproxy.amqp010.domains import DetachCode
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.methods import Command, Method
from amqproxy.amqp091.errors import ProtocolError as ProtocolError091
from amqproxy.amqp091.wire import Table
from amqproxy.broker.access.users import User
from amqproxy.broker.amqp010.completions import Completions
from amqproxy.broker.amqp010.session_sender import SessionSender
from amqproxy.broker.broker import Broker
from amqproxy.broker.clients import ConnectedClient
from amqproxy.broker.connections.output import OutputBuffer
from amqproxy.broker.message import Message
from amqproxy.broker.message_counts import MessageCounts
from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.vhost import VirtualHost
from amqproxy.broker.work import Job


class Transaction(Protocol):
    """The collector of a transaction's messages; `work_unit` implements it."""

    def publish(self, message: Message, queues: tuple[Queue, ...], counts: MessageCounts, /) -> None: ...


class OwningSession(Protocol):
    """The session as its deliveries and publisher see it; `session` documents its methods."""

    @property
    def broker(self) -> Broker: ...

    @property
    def connection(self) -> OwningConnection: ...

    @property
    def vhost(self) -> VirtualHost: ...

    @property
    def user(self) -> User: ...

    @property
    def exclusive_queues(self) -> dict[Queue, None]: ...

    @property
    def locked_queues(self) -> dict[Queue, None]: ...

    @property
    def client(self) -> str: ...

    @property
    def place(self) -> Table: ...

    @property
    def sender(self) -> SessionSender: ...

    @property
    def completions(self) -> Completions: ...

    @property
    def transaction(self) -> Transaction | None: ...

    def do(self, job: Job, now: float, /) -> None: ...

    def complete(self, position: int, /) -> None: ...

    def complete_range(self, positions: range, /) -> None: ...

    def end_turn(self) -> None: ...

    def fail_soon(self, error: ProtocolError | None = None, /) -> None: ...


class OwningConnection(ConnectedClient, Protocol):
    """The connection of a session; `connection` documents its methods."""

    @property
    def broker(self) -> Broker: ...

    @property
    def user(self) -> User: ...

    @property
    def output(self) -> OutputBuffer: ...

    @property
    def frame_max(self) -> int: ...

    def send_method(self, channel: int, method: Method, /) -> None: ...

    @property
    def exclusive_queues(self) -> dict[Queue, None]: ...

    def is_costly(self) -> None: ...

    def do(self, job: Job, now: float, session: SessionOfJob, position: int, /) -> None: ...

    def to_end_turn(self, session: SessionOfJob, /) -> None: ...

    def detached(self, session: SessionOfJob, code: DetachCode, now: float, /) -> None: ...

    def end_session(self, session: SessionOfJob, now: float, /) -> None: ...

    def fail_session_soon(self, session: SessionOfJob, error: ProtocolError, /) -> None: ...

    def log_exception(self, number: int, error: ProtocolError, command: Command | None, /) -> None: ...


class SessionOfJob(OwningSession, Protocol):
    """The session as its connection sees it."""

    @property
    def name(self) -> bytes: ...

    @property
    def number(self) -> int: ...

    def fail(
        self, error: ProtocolError | ProtocolError091, position: int | None, command: Command | None, now: float, /
    ) -> None: ...

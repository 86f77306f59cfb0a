"""Stand-in for the connection of a session whose client is gone and may come back. Section 3.3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from amqproxy.amqp010.domains import DetachCode
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import MAX_FRAME
from amqproxy.amqp010.methods import Command, Method
from amqproxy.amqp091.errors import ProtocolError as ProtocolError091
from amqproxy.broker.access.users import User
from amqproxy.broker.amqp010.owners import OwningConnection, SessionOfJob
from amqproxy.broker.broker import Broker
from amqproxy.broker.clients import ClientChannel
from amqproxy.broker.connections.output import OutputBuffer
from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.vhost import VirtualHost
from amqproxy.broker.work import Job

if TYPE_CHECKING:
    from collections.abc import Callable


class Detachment:
    """A connection that takes and sends nothing while work continues; it calls `end` if the session has to end."""

    is_over = False
    is_blocked = False
    bytes_arriving = 0
    frame_max = MAX_FRAME
    channels: Mapping[int, ClientChannel] = {}

    def __init__(self, connection: OwningConnection, vhost: VirtualHost, end: Callable[[float], None]) -> None:
        self.broker: Broker = connection.broker
        self.user: User = connection.user
        self.name = connection.name
        self.vhost: VirtualHost = vhost
        self.output = OutputBuffer(MAX_FRAME, lambda: None)
        self.output.has_room = False
        self.exclusive_queues: dict[Queue, None] = {}
        """Always empty: a connection's exclusive queues are deleted with it."""
        self._end = end

    def send_method(self, channel: int, method: Method) -> None:
        """Drop the method: commands are sent again later, and controls are not worth keeping."""

    def is_costly(self) -> None:
        """Charge nothing: no client is served."""

    def do(self, job: Job, now: float, session: SessionOfJob, position: int) -> None:
        """Run a job alongside all other work."""
        self.vhost.work.do(job, now)

    def to_end_turn(self, session: SessionOfJob) -> None:
        """Postpone the report of completions until the client comes back."""

    def detached(self, session: SessionOfJob, code: DetachCode, now: float) -> None:
        """End the session."""
        self._end(now)

    def end_session(self, session: SessionOfJob, now: float) -> None:
        """End the session."""
        self._end(now)

    def fail_session_soon(self, session: SessionOfJob, error: ProtocolError) -> None:
        """End the session in a later turn, instead of waiting for its client."""
        self.log_exception(session.number, error, None)
        self.vhost.work.add(self._end_later)

    def _end_later(self, now: float) -> bool:
        self._end(now)
        return False

    def log_exception(self, number: int, error: ProtocolError, command: Command | None) -> None:
        """Log the error that ends the session."""
        fields = {"client": self.name, "channel": number, "code": int(error.code), "reason": error.reply_text}
        self.broker.events.log("warning", "detached session error", "", **fields)

    def is_of(self, user: User) -> bool:
        return user is self.user

    def is_named(self, name: str) -> bool:
        return name == self.user.name

    def tick(self, now: float) -> None: ...

    def alarms_changed(self, now: float) -> None: ...

    def end_channel(self, number: int, error: ProtocolError091, now: float) -> None:
        self._end(now)

    def close(self, reason: str, now: float) -> None:
        self._end(now)

    def give_up(self, now: float) -> None:
        self._end(now)

    def cut(self) -> None: ...

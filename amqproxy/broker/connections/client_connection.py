"""A client's connection to the broker, without its protocol: turns, jobs, blocking, timers, closing, output, log.

All of this is one class because it shares one state, whose fields C accesses directly.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Generator, Mapping
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, NotRequired, Protocol, TypedDict, Unpack

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.broker.access.users import User
from amqproxy.broker.broker import Broker
from amqproxy.broker.connections.closing import CLOSING_TIME, SocketClosing, closing_time
from amqproxy.broker.connections.exclusive_queues import removing
from amqproxy.broker.connections.login import Login
from amqproxy.broker.connections.output import OutputBuffer
from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.vhost import VirtualHost
from amqproxy.broker.work import Job, Steps
from amqproxy.peer import CLIENT, SERVER, Peer

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

if TYPE_CHECKING:
    Frames = list[Any]  # unknown to Cython, which takes the type of the .pxd

HANDSHAKE_TIME = 10.0
"""Seconds within which a client must open its connection."""

METHOD_COST = 16
"""Operations that a method counts as, except the methods that come with every message."""


class Liveness(Protocol):
    """The heartbeats of a connection; `heartbeat` is the interval in seconds, 0 without heartbeats."""

    @property
    def heartbeat(self) -> int: ...

    def note_received(self, sender: Peer, now: float, /) -> None: ...

    def is_silent(self, sender: Peer, now: float, /) -> bool: ...

    def is_heartbeat_due(self, sender: Peer, now: float, /) -> bool: ...


class ClientFacts(TypedDict):
    """Transport facts of a client, passed to its connection.

    `name` is the connection's name in RabbitMQ's notation (`127.0.0.1:40000 -> 127.0.0.1:5672`), `certificate_name` the
    subject of a TLS client's certificate, "" if it presented none, `user` the login of a client within this process
    that has no other, and `now` the time of the accept in seconds; without it, the handshake has no time limit. `wake`
    is called whenever there is output, or the connection is over.
    """

    is_loopback: bool
    wake: Callable[[], None]
    name: NotRequired[str]
    certificate_name: NotRequired[str | None]
    user: NotRequired[User | None]
    now: NotRequired[float | None]


class ClientConnection:
    """Server side of one client's connection; each protocol's dialect derives from it.

    `feed` takes received bytes; `take_output` returns the bytes to send, and `sent` is called once they are sent;
    `waiting` bytes are not confirmed as sent. Once `is_over`, no more input is taken: `end` says how to close the
    socket when the output is sent, and `patience` for how many seconds the client may keep it open; `lose` must be
    called in any case. While it `is_blocked` or `is_behind`, the socket must not be read. `wake` is called whenever any
    of this has changed. Work that exceeds a turn of the loop continues in later turns, before the client's next frame.
    """

    channel_noun: ClassVar[str] = "channel"
    name_property: ClassVar[str] = "connection_name"
    """The client property that names the connection in the log."""
    faults: ClassVar[tuple[type[Exception], ...]]
    """The exceptions that are reported to the client with a reply code."""

    def __init__(self, broker: Broker, liveness: Liveness, frame_max: int, **client: Unpack[ClientFacts]) -> None:
        self.broker = broker
        self.name = client.get("name", "")
        self.token = secrets.token_urlsafe(12)
        self.liveness = liveness
        self.channels: dict[int, Any] = {}
        self.vhost: VirtualHost | None = None
        self.output = OutputBuffer(frame_max, client["wake"], broker.waiting)
        self.client_properties: Mapping[str, Any] = {}
        self.exclusive_queues: dict[Queue, None] = {}
        """The queues to delete with the connection."""
        self.is_over = False
        self.end: SocketClosing | None = None
        self.patience = 0.0
        self.is_blocked = False
        self.is_paused = False
        """Whether reading from the client is suspended, so that its silence does not count as missed heartbeats."""
        self.is_awaiting = False
        """Whether a reply is held back until the change that it confirms is on disk."""
        self._user: User | None = None
        self._login = Login(
            broker,
            is_loopback=client["is_loopback"],
            certificate_name=client.get("certificate_name"),
            user=client.get("user"),
        )
        self._is_lost = False
        self._closing_line: tuple[str, dict[str, Any]] | None = None
        self._wake = client["wake"]
        self._fault: Any = None
        """The refused frame's error, until the frames before it are processed."""
        self._unread: list[Any] = []
        self._place = 0
        self._is_busy = self._is_listed = False
        self._jobs: deque[tuple[Steps, Any]] = deque()
        self._cause: Any = None
        """The frame or command that caused the current operation."""
        self._quantum = broker.work.quantum
        self._ends_at: float | None = None
        self._expires_at = inf
        """The time at which the client's login ends."""
        broker.connections[self] = None
        if (now := client.get("now")) is not None:
            self._end_by(now + HANDSHAKE_TIME)

    @property
    def user(self) -> User:
        """The user that has logged in."""
        assert self._user is not None
        return self._user

    @property
    def address(self) -> str:
        """The client's address, without its port."""
        return self.name.partition(" ")[0].rpartition(":")[0]

    def is_of(self, user: User) -> bool:
        """Whether this user has logged in."""
        return self._user is user

    def is_named(self, name: str) -> bool:
        """Whether a user of this name has logged in, by password or by token."""
        return self._user is not None and self._user.name == name

    # --- implemented by a dialect

    @property
    def bytes_arriving(self) -> int:
        """Bytes received of incomplete messages and commands."""
        raise NotImplementedError

    @property
    def _is_open(self) -> bool:
        """Whether the handshake is done and neither peer is closing."""
        raise NotImplementedError

    @property
    def _is_closing(self) -> bool:
        """Whether either peer has sent its close."""
        raise NotImplementedError

    @property
    def _has_spoken(self) -> bool:
        """Whether the client has sent anything."""
        return True

    def _read(self, data: bytes, now: float) -> list[Any]:
        """Return the frames in the received bytes; a reader's error becomes the `_fault`."""
        raise NotImplementedError

    def _take(self, frames: Frames, now: float) -> None:
        """Process the frames from `_place` on until the turn ends, and `_leave` the rest."""
        raise NotImplementedError

    def _end_turn(self) -> None:
        """Send the confirms or completions of this turn's work."""
        raise NotImplementedError

    def _answer_fault(self, fault: Any, now: float) -> None:
        """Close the connection for a frame that the reader refused."""
        raise NotImplementedError

    def _answer(self, error: Any, cause: Any, now: float) -> None:
        """Close the channel or the connection for an error of the job that `cause` started."""
        raise NotImplementedError

    def _answer_failures(self, now: float) -> None:
        """Close the connection for a failure noted by `fail_soon` since the last tick."""
        raise NotImplementedError

    def _has_unblocked(self) -> None:
        """Notify the client that it may publish again, if its protocol has a method for that."""

    def _losing_channel(self, number: int, now: float, *, may_come_back: bool) -> Generator[None, float, float]:
        """Remove a channel and requeue its unacknowledged messages, in steps."""
        raise NotImplementedError

    def _emptying(self, queue: Queue, now: float) -> Generator[None, float, float]:
        """Move the messages of an exclusive queue elsewhere before it is deleted, in steps."""
        raise NotImplementedError

    def _send_heartbeat(self) -> None:
        raise NotImplementedError

    def _send_close_ok(self) -> None:
        raise NotImplementedError

    def fail(self, now: float) -> None:
        """Close the connection for an error of the broker."""
        raise NotImplementedError

    def close(self, reason: str, now: float) -> None:
        """Close the connection with 320 and a reason."""
        raise NotImplementedError

    def end_channel(self, number: int, error: ProtocolError, now: float) -> None:
        """Close one channel without naming a method."""
        raise NotImplementedError

    # --- bytes

    def feed(self, data: bytes, now: float) -> None:
        """Process bytes from the client; every error in them is answered, none is raised."""
        if self.is_over:
            return
        self.liveness.note_received(CLIENT, now)
        frames = self._read(data, now)
        if self._unread or self._is_busy:
            self._unread += frames
        else:
            self._take(frames, now)
            if self.is_behind and not self.is_awaiting:
                self._go_on_later()

    def _leave(self, frames: Frames, place: cython.Py_ssize_t, now: float) -> None:
        """End this turn's processing and keep the frames from `place` on for later turns."""
        if self.is_over:
            self._unread, self._place = [], 0
            return
        self._unread, self._place = (frames, place) if place < len(frames) else ([], 0)
        self._end_turn()
        if self._fault is not None and not self._unread and not self._is_busy:
            fault, self._fault = self._fault, None
            self._answer_fault(fault, now)

    # --- work left to later turns

    @property
    def is_behind(self) -> bool:
        """Whether work is pending that must be done before more is read."""
        return self._is_busy or (self._place < len(self._unread) and not self.is_blocked)

    def do(self, job: Job, now: float) -> None:
        """Run a job before the client's next frame: start it in this turn, and continue it in later ones.

        If one of the `faults` ends the job, it is answered as an error of the frame or command that caused the job.
        """
        self._quantum.hasten()
        steps = Steps(job)
        if not self._is_busy and not steps.go_on(now):
            return
        self._jobs.append((steps, self._cause))
        self._is_busy = True
        self._go_on_later()

    def _go_on_later(self) -> None:
        if not self._is_listed:
            self._is_listed = True
            self.broker.work.add(self._go_on)

    def _go_on(self, now: float) -> bool:
        """Run a turn of the pending jobs and frames; return whether work remains."""
        self._do_jobs(now)
        if not self._is_busy and not self.is_blocked and not self.is_over:
            self._take(self._unread, now)
        self._end_turn()
        if self.is_behind and not self.is_awaiting:
            return True
        self._is_listed = False
        if not self.is_over:
            self._wake()
        return False

    def _do_jobs(self, now: float) -> None:
        while self._jobs:
            steps, cause = self._jobs[0]
            self._cause = cause
            failure: Exception | None = None
            try:
                if steps.go_on(now):
                    return
            except self.faults as error:
                failure = error
            except Exception:
                self._jobs.popleft()
                self._is_listed = False
                self.fail(now)
                raise
            self._jobs.popleft()
            if failure is not None:
                self._answer(failure, cause, now)
        self._is_busy = self.is_awaiting

    # --- output

    @property
    def waiting(self) -> int:
        """Bytes of output that are not confirmed as sent."""
        return self.output.waiting

    def take_output(self) -> bytes:
        """Return the pending output."""
        return self.output.take_bytes()

    def take_pieces(self) -> list[bytes]:
        """Return the pending output in pieces, so that large bodies are not copied."""
        return self.output.take_pieces()

    def sent(self, now: float) -> None:
        """Note that the taken output is sent, and deliver more messages if that has made room."""
        self.liveness.note_received(SERVER, now)
        if self.output.sent():
            for channel in list(self.channels.values()):
                channel.deliveries.pump(now)

    def alarms_changed(self, now: float) -> None:
        """Unblock a blocked client once no alarm is left."""
        if not self.is_blocked or self.broker.alarms:
            return
        self.is_blocked = False
        self._has_unblocked()
        if not self._is_busy:
            self._take(self._unread, now)
        if self.is_behind:
            self._go_on_later()
        self._wake()

    # --- the login

    def _refuse_login(self, mechanism: str, reason: str) -> None:
        """Count and log a refused login."""
        user = self._login.user_name or None
        self.log("warning", "login refused", mechanism=mechanism, user=user, reason=reason)
        self._closing_line = "debug", {"by": "broker", "reason": "login refused"}
        self.broker.refused.add(self, self.address)

    def _opened(self, now: float, **fields: Any) -> None:
        """Log and report that the connection is open, and start its timer."""
        self._ends_at = None
        self._set_timer(now)
        product = _text(self.client_properties, "product")
        self.log("info", "connection open", product=product, heartbeat=self.liveness.heartbeat or None, **fields)
        self.broker.events.churn.connection_created += 1
        self.report("connection.created", self)

    def report(self, name: str, subject: object) -> None:
        """Report an event of this connection or of one of its channels to observers."""
        events = self.broker.events
        if events.observers and self.vhost is not None:
            events.report(name, self.vhost.name, subject, connection=self)

    # --- time

    def tick(self, now: float) -> None:
        """Run the due timers: cut a client that is too slow or silent, or send a heartbeat."""
        if not self.is_over:
            self._answer_failures(now)
        if self.is_over:
            return
        liveness, is_open = self.liveness, self._is_open
        is_read = not self.is_blocked and not self.is_behind and not self.is_paused
        if is_open and is_read and liveness.is_silent(CLIENT, now):
            self.cut(f"missed heartbeats from client, timeout: {liveness.heartbeat}s")
            return
        if self._ends_at is not None and self._ends_at <= now:
            self.cut("" if self._is_closing else "handshake timeout")
            return
        if is_open and self._expires_at <= now:
            self._expires_at = inf
            self.close("credential expired", now)
            return
        if is_open and liveness.is_heartbeat_due(SERVER, now):
            self._send_heartbeat()
            liveness.note_received(SERVER, now)
        self._set_timer(now)

    def _end_within(self, time: float, now: float) -> None:
        """Cut the client after `time` seconds, unless an earlier time is set."""
        if self._ends_at is None or self._ends_at > now + time:
            self._end_by(now + time)

    def _end_by(self, when: float) -> None:
        self._ends_at = when
        self.broker.timed_connections.set(self, when)

    def _set_timer(self, now: float) -> None:
        """Set the next tick: heartbeats are checked four times in each interval, and the login when it ends."""
        interval = self.liveness.heartbeat
        if self._ends_at is not None:
            self.broker.timed_connections.set(self, self._ends_at)
        elif interval or self._expires_at < inf:
            self.broker.timed_connections.set(self, min(now + interval / 4 if interval else inf, self._expires_at))
        else:
            self.broker.timed_connections.drop(self)

    # --- the end

    def give_up(self, now: float) -> None:
        """Close the connection for an error of the broker; if closing fails too, cut it."""
        try:
            self.fail(now)
        except Exception as error:  # noqa: BLE001
            self.broker.events.fail("connection failed", error, client=self.name)
            self.cut()

    def _closed_by_client(self, now: float) -> Job:
        yield from self._losing_channels(now)
        self._send_close_ok()
        self._end(SocketClosing.CLOSED, closing_time(self.liveness.heartbeat))

    def _note_client_close(self, code: int, text: str) -> None:
        """Prepare the log line for the client's close; some clients, such as py-amqp, close without a code."""
        fields = {"by": "client", "code": code or None, "reason": text or None}
        self._closing_line = "info" if code in (0, 200) else "warning", fields

    def _await_close_ok(self, ends_at: float) -> None:
        """Wait until `ends_at` for the client's answer to the broker's close."""
        self.is_blocked = False
        self._end_by(ends_at)
        if self._unread:  # these frames may include the client's own close
            self._go_on_later()

    def cut(self, reason: str = "") -> None:
        """Reset the socket at once and discard unsent output; a reason is logged as a warning."""
        if reason:
            self._closing_line = "warning", {"by": "broker", "reason": reason}
        self._end(SocketClosing.LOST)

    def _end(self, end: SocketClosing, patience: float = CLOSING_TIME) -> None:
        self.is_over = True
        self.end = end
        self.patience = patience
        self._wake()

    def lose(self, now: float, *, is_gone: bool = True) -> None:
        """End the channels and exclusive queues of a client that is gone or about to be disconnected.

        `is_gone` is true when the client has closed the socket.
        """
        if not self._is_lost:
            self._is_lost = True
            self._log_end(is_gone=is_gone)
        self.is_over = True
        self._unread, self._place = [], 0
        self.broker.timed_connections.drop(self)
        self.do(self._losing(now), now)

    def _losing(self, now: float) -> Job:
        yield from self._losing_channels(now)
        if self.broker.connections.pop(self, self) is None:
            self.broker.events.churn.connection_closed += self.vhost is not None
            self.report("connection.closed", self)
        self._unread = []
        self.output.close()
        self._wake = _do_nothing  # the woken task refers to this connection: this breaks the reference cycle

    def _losing_channels(self, now: float, *, may_come_back: bool = True) -> Generator[None, float, float]:
        self.output.has_room = False  # messages requeued by one channel must not be delivered to another
        contained = self.broker.events.contained
        for number in list(self.channels):
            with contained(f"a {self.channel_noun}'s end failed", client=self.name, channel=number):
                now = yield from self._losing_channel(number, now, may_come_back=may_come_back)
        if self.vhost is not None:
            now = yield from removing(self.vhost, self.exclusive_queues, self.name, now, self._emptying)
        return now

    def step_aside(self) -> None:
        """Discard this connection because the client speaks another protocol, served by another connection."""
        self.is_over = self._is_lost = True
        self.broker.timed_connections.drop(self)
        self.broker.connections.pop(self, None)
        self.output.close()
        self._wake = _do_nothing

    # --- the log

    def log(self, level: str, event: str, **fields: Any) -> None:
        """Log a line about this client; a client within this process has no name, and its info lines become debug."""
        if not self.name and level == "info":
            level = "debug"
        known = {
            "client": self.name or None,
            "name": _text(self.client_properties, self.name_property),
            "user": self._user.name if self._user is not None else None,
            "vhost": self.vhost.name if self.vhost is not None else None,
        }
        self.broker.events.log(level, event, self.address, **{**known, **fields})

    def _log_end(self, *, is_gone: bool) -> None:
        level, fields = self._closing_line or ("info", {})
        if self._closing_line is None and is_gone:
            level = "warning" if self._has_spoken else "debug"
            reason = "client unexpectedly closed TCP connection" if self._has_spoken else "client sent nothing"
            fields = {"by": "client", "reason": reason}
        self.log(level, "connection closed", **fields)


def _do_nothing() -> None:
    """Stand in for `wake` once the connection is over."""


def _text(properties: Mapping[str, Any], name: str) -> str | None:
    """Return a client property if it is a string, else `None`."""
    value = properties.get(name)
    return value if isinstance(value, str) else None

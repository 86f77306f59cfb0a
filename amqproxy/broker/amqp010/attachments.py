"""The sessions attached to a connection's channels: attach, detach and resume. Sections 3.3 and 9.2."""

from __future__ import annotations

from collections.abc import Generator
from typing import Protocol

from amqproxy.amqp010.assembly import AssemblyReader
from amqproxy.amqp010.controls import (
    SessionAttach,
    SessionAttached,
    SessionCommandPoint,
    SessionDetach,
    SessionDetached,
)
from amqproxy.amqp010.domains import DetachCode
from amqproxy.amqp010.errors import ConnectionForced, FramingError
from amqproxy.amqp010.methods import Control
from amqproxy.broker.access.limits import limit
from amqproxy.broker.amqp010.owners import OwningConnection, SessionOfJob
from amqproxy.broker.amqp010.session import BrokerSession
from amqproxy.broker.work import Job


class AttachingConnection(OwningConnection, Protocol):
    """The connection that the sessions are attached to; `connection` documents its methods."""

    @property
    def channel_max(self) -> int: ...

    def do(self, job: Job, now: float, session: SessionOfJob | None = None, position: int = 0, /) -> None: ...

    def report(self, name: str, subject: object, /) -> None: ...

    def forget(self, session: SessionOfJob, /) -> None: ...


class Attachments:
    """Sessions of one connection by channel, and in `readers` the assembly readers of their channels."""

    def __init__(self, connection: AttachingConnection) -> None:
        self.sessions: dict[int, BrokerSession] = {}
        self.readers: dict[int, AssemblyReader] = {}
        self._connection = connection
        self._detaching: set[int] = set()
        """Channels whose last control is sent; further frames on them are ignored."""

    def take(self, channel: int, control: Control, now: float) -> None:
        """Handle a session control."""
        connection, session = self._connection, self.sessions.get(channel)
        match control:
            case SessionAttach():
                connection.is_costly()
                self._attach(channel, (control.name_ or b""), is_forced=control.force, now=now)
            case SessionDetached():
                self._detaching.discard(channel)
                if session is not None:
                    self.end(session, now)
            case SessionDetach():
                connection.is_costly()
                name = control.name_ or b""
                if session is None or session.name != name:
                    # After an exception, both peers detach at the same time.
                    code = DetachCode.NORMAL if channel in self._detaching else DetachCode.NOT_ATTACHED
                    connection.send_method(channel, SessionDetached(name, code))
                else:
                    connection.do(self._detaching_session(session, now), now)
            case _ if session is not None:
                connection.is_costly()
                before = session.next_position
                session.control(control, now)
                if session.next_position != before or type(control) is SessionCommandPoint:
                    self.readers.pop(channel, None)  # the rest of a command that had begun never comes
            case _:
                self.refuse(channel)

    def refuse(self, channel: int) -> None:
        """Answer the frames for a session that is not attached, once, with session.detached."""
        if channel not in self._detaching:
            self._detaching.add(channel)
            self._connection.send_method(channel, SessionDetached(b"", DetachCode.NOT_ATTACHED))

    # --- attaching

    def _attach(self, channel: int, name: bytes, *, is_forced: bool, now: float) -> None:
        connection, attached = self._connection, self.sessions.get(channel)
        vhost = connection.vhost
        assert vhost is not None
        if attached is not None:
            if attached.name != name:
                connection.send_method(channel, SessionDetached(name, DetachCode.TRANSPORT_BUSY))
            else:
                connection.send_method(channel, SessionAttached(name))
            return
        self._check_limits()
        registry = connection.broker.sessions
        key = vhost.name, connection.user.session_owner, name
        other = registry.get(key)
        if isinstance(other, BrokerSession) and other.is_detached and other.vhost is vhost:
            self._detaching.discard(channel)
            self._add(channel, other)
            connection.send_method(channel, SessionAttached(name))
            other.resume(connection, channel, now)
            connection.report("channel.created", other)
            return
        if other is not None:
            if not is_forced:
                connection.send_method(channel, SessionDetached(name, DetachCode.SESSION_BUSY))
                return
            other.take_over(now)
            registry.pop(key, None)
        self._detaching.discard(channel)
        session = registry[key] = BrokerSession(name, channel, connection, vhost)
        self._add(channel, session)
        connection.send_method(channel, SessionAttached(name))
        connection.report("channel.created", session)

    def _add(self, channel: int, session: BrokerSession) -> None:
        self.sessions[channel] = session
        self._connection.user.channels += 1
        self._connection.broker.events.churn.channel_created += 1

    def _check_limits(self) -> None:
        """Raise `ProtocolError` if channel-max or the user's max-channels allows no further session."""
        connection = self._connection
        if len(self.sessions) >= connection.channel_max:
            raise FramingError(f"more than {connection.channel_max} sessions, which were agreed")
        user = connection.user
        allowed = limit(connection.broker.limits_of(user), "max-channels")
        if allowed is not None and connection.broker.channels_of(user) >= allowed:
            raise ConnectionForced(f"the user '{user.name}' may have {allowed} sessions")

    # --- detaching

    def detached(self, session: SessionOfJob, code: DetachCode, now: float) -> None:
        """Detach a session for a reason that is not an exception."""
        self._connection.send_method(session.number, SessionDetached(session.name, code))
        self.end(session, now)

    def end(self, session: SessionOfJob, now: float) -> None:
        """End a session whose last control is sent; further frames for it are ignored."""
        self._detaching.add(session.number)
        self._connection.do(self.losing(session, now), now)

    def _detaching_session(self, session: BrokerSession, now: float) -> Job:
        session.end_turn()
        yield from self.losing(session, now, may_come_back=True)
        self._connection.send_method(session.number, SessionDetached(session.name, DetachCode.NORMAL))

    def losing(
        self, session: SessionOfJob, now: float, *, may_come_back: bool = False
    ) -> Generator[None, float, float]:
        connection, number = self._connection, session.number
        ended = self.sessions.get(number)
        if ended is not None and ended is session:
            del self.sessions[number]
            connection.user.channels -= 1
            connection.broker.events.churn.channel_closed += 1
            reader = self.readers.pop(number, None)
            connection.forget(session)
            if may_come_back and ended.detach(now):
                return now
            if reader is not None:
                ended.publisher.interrupted(reader.partial_command)
            registry, key = connection.broker.sessions, ended.key
            if registry.get(key) is session:
                del registry[key]
            now = yield from ended.closing(now)
            connection.report("channel.closed", ended)
        return now

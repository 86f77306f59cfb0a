"""One recorded 0-10 connection, played against a live broker.

Sessions are attached, and their commands numbered and completed, anew; a command is sent with the live names and ids.
The recorded broker's completions, settlements, results and transfers are awaited. Messages are compared in their
0-9-1 views: see `amqproxy.conversion`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from amqproxy.amqp010 import controls
from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.command_ids import CommandIds
from amqproxy.amqp010.commands import (
    ExecutionException,
    ExecutionResult,
    MessageAccept,
    MessageAcquire,
    MessageCancel,
    MessageRelease,
    MessageResume,
    MessageSubscribe,
    QueueQuery,
)
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.methods import Command, Method
from amqproxy.amqp091.errors import ProtocolError as ProtocolError091
from amqproxy.amqp091.methods import BasicAck, BasicNack
from amqproxy.conversion.amqp010.command_view import command_view
from amqproxy.conversion.inexpressible import Inexpressible
from amqproxy.peer import CLIENT
from amqproxy.replay.amqp010.assembly_sent import AssemblySent
from amqproxy.replay.amqp010.compared_connection import OF_BROKER_J, Amqp010ComparedConnection
from amqproxy.replay.amqp010.live_connection import SETTLEMENTS
from amqproxy.replay.amqp010.names import with_live_names
from amqproxy.replay.amqp010.restored_session import restoring_commands, subscriptions_of
from amqproxy.replay.amqp010.session import (
    PlayedSession,
    PlayedSubscription,
    has_lost_bytes,
    ids_of,
    set_of,
)
from amqproxy.replay.broker_link import Life, ReplayedStream
from amqproxy.replay.player import Ahead, Player
from amqproxy.replay.steps import (
    BytesSent,
    ConnectionEnded,
    ConnectionRestored,
    ProtocolHeaderSent,
)
from amqproxy.taps.trace.snapshot import ChannelSnapshot

_OURS = (
    controls.SessionCommandPoint,
    controls.SessionConfirmed,
    controls.SessionDetached,
    controls.SessionExpected,
    controls.SessionGap,
    controls.SessionKnownCompleted,
    controls.SessionTimeout,
)
"""Client controls about command numbering, and replies to controls: the live connection sends its own."""

_NEVER_PLAYED = ("file.", "stream.")

JOINED = b"amqproxy replay"
"""The name of a session whose beginning is not in the capture."""


class Amqp010Player(Player, Amqp010ComparedConnection):
    """One 0-10 connection that is played."""

    def __init__(self, replayed: ReplayedStream, *, timeout: float, wake: Callable[[Player], None]) -> None:
        super().__init__(replayed, timeout=timeout, wake=wake)
        self._has_recorded_login = False
        """Whether it repeats the recorded login unchanged, since that was refused."""

    # --- the client's steps

    def _play_client(
        self, step: AssemblySent | ProtocolHeaderSent | BytesSent | ConnectionRestored, ahead: Ahead
    ) -> float | None:
        if isinstance(step, ConnectionRestored):
            return self._restore(step)
        if not isinstance(step, AssemblySent):  # `_greet` has sent the protocol header
            return None
        method = step.command.method
        if self.life is Life.ENDED:
            if not isinstance(method, controls.ConnectionCloseOk):
                self._result.unplayed(step, self.error or "the connection was over")
            return None
        if method.name.startswith("connection."):
            return self._play_on_connection(step, method, ahead)
        if not self._is_open:
            return self._awaited.patience(step, self._now, "the broker did not answer the login")
        if isinstance(method, Command):
            return self._play_command(step, method)
        return self._play_on_session(step, method)

    def _restore(self, step: ConnectionRestored) -> float | None:
        """Attach the sessions that were attached, and bring them into their recorded states."""
        if self.life is Life.ENDED:
            self._result.unplayed(step, self.error or "the connection was over")
            return None
        if not self._is_open:
            return self._awaited.patience(step, self._now, "the broker did not answer the login")
        states = {each.number: each for each in step.snapshot.channels if not each.closing}
        if not self._sessions:
            for number, state in states.items():
                self._attach(number, state.name or b"%b %d" % (JOINED, step.stream))
        if any(not session.is_attached and not session.is_over for session in self._sessions.values()):
            until = self._awaited.patience(step, self._now, "the sessions were not attached")
            if until is not None:
                return until
        attached = [each for each in self._sessions.values() if each.is_attached]
        for session in attached:
            for each in subscriptions_of(states[session.number]):
                if each.queue and each.queue not in session.probes:
                    session.probes[each.queue] = self._restoring(session, QueueQuery(each.queue, sync=True))
        if any(each not in session.results for session in attached for each in session.probes.values()):
            until = self._awaited.patience(step, self._now, "the broker did not answer the queries for queues")
            if until is not None:
                return until
        for session in attached:
            self._restore_session(session, states[session.number])
        return None

    def _restore_session(self, session: PlayedSession, state: ChannelSnapshot) -> None:
        missing = {queue for queue, probe in session.probes.items() if not _exists(session.results.get(probe))}
        for queue in sorted(missing):
            self._result.note(
                f"session {session.number} was restored without subscriptions to queue {queue!r}: it does not exist"
            )
        for command in restoring_commands(state, missing):
            if isinstance(command, MessageSubscribe):
                queue = f"{self._virtual_host}\0{command.queue}"
                session.subscriptions[command.destination or ""] = PlayedSubscription(queue, command)
            self._restoring(session, command)

    def _restoring(self, session: PlayedSession, command: Command) -> int:
        """Send a command that the recorded client has sent before the capture began; return its live id."""
        self._write_frames(self._renamed(Assembly(session.number, command)).encode(self._frame_max))
        return session.sent(None)

    def _play_on_connection(self, step: AssemblySent, method: Method, ahead: Ahead) -> float | None:
        match method:
            case controls.ConnectionStartOk() | controls.ConnectionTuneOk() | controls.ConnectionOpen() if (
                self._is_joined
            ):
                return None
            case controls.ConnectionStartOk():
                if self._start is None:
                    return self._awaited.patience(step, self._now, "the broker did not answer the login")
                self._has_recorded_login = _is_refused(step, ahead, controls.ConnectionTune)
                if self._has_recorded_login:
                    self._send(0, method)
                else:
                    self._log_in(method)
            case controls.ConnectionTuneOk():
                if self._tune is None:
                    return self._awaited.patience(step, self._now, "the broker did not answer the login")
                self._agree(method)
            case controls.ConnectionOpen():
                if _is_refused(step, ahead, controls.ConnectionOpenOk):
                    self._send(0, method)
                else:
                    self._enter(method)
            case controls.ConnectionClose():
                self._is_ending = True
                for session in self._sessions.values():
                    session.is_ending = True
                self._send(0, method)
            case controls.ConnectionCloseOk():
                if self._close_received is None and not self._is_ending:
                    self._is_ending = True
                    self._send(0, controls.ConnectionClose(200, "the recorded connection ends here"))
                return None
            case controls.ConnectionSecureOk() if self._has_recorded_login:
                self._send(0, method)
            case _:
                return None
        self._result.sent += 1
        return None

    def _play_on_session(self, step: AssemblySent, method: Method) -> float | None:
        session = self._sessions.get(step.channel)
        if isinstance(method, controls.SessionAttach):
            if session is not None and not session.is_over:
                if not session.is_ending:
                    self._detach(session)
                return self._awaited.patience(step, self._now, "the session was not detached")
            self._attach(step.channel, method.name_ or b"")
            self._result.sent += 1
            return None
        if isinstance(method, _OURS) or session is None:
            return None
        if session.is_over:
            return None
        match method:
            case controls.SessionDetach():
                self._detach(session)
            case controls.SessionCompleted():
                self._complete_as(session, method)
                return None
            case _:
                self._send(step.channel, method)
        self._result.sent += 1
        return None

    def _detach(self, session: PlayedSession) -> None:
        self._complete(session, list(session.open))
        session.is_ending = True
        self._send(session.number, controls.SessionDetach(session.name))

    def _complete_as(self, session: PlayedSession, method: controls.SessionCompleted) -> None:
        """Complete the live counterparts of the transfers that the recorded client has completed."""
        for recorded in session.newly_completed(ids_of(method.commands)):
            delivery = session.deliveries[recorded]
            if delivery is None or not isinstance(delivery.holder, Amqp010Player):
                continue
            holder = delivery.holder
            owner = holder._sessions.get(delivery.channel)
            if owner is not None and delivery.tag in owner.open:
                holder._complete(owner, [delivery.tag])

    def _play_command(self, step: AssemblySent, method: Command) -> float | None:
        session = self._sessions.get(step.channel)
        if session is None:
            if not self._is_joined:
                self._result.unplayed(step, "its session was not attached")
                return None
            session = self._attach(step.channel, b"%b %d" % (JOINED, step.stream))
        if session.is_over:
            if step.is_wanted:
                self._result.unplayed(step, session.why_over)
            return None
        if not session.is_attached:
            return self._awaited.patience(step, self._now, "the session was not attached")
        if not step.is_wanted:
            return None
        reason = _why_never(method)
        if reason:
            self._result.unplayed(step, reason)
        elif isinstance(method, (*SETTLEMENTS, MessageAcquire)):
            self._settle(step, session, method)
        else:
            self._send_command(step, session, method)
        return None

    def _send_command(self, step: AssemblySent, session: PlayedSession, method: Command) -> None:
        """Send a recorded command with the live names."""
        try:
            live = self._renamed(step.command)
        except (Inexpressible, ProtocolError, ProtocolError091) as error:
            self._result.unplayed(step, f"its names cannot be replaced: {error}")
            return
        if isinstance(method, MessageSubscribe):
            queue = f"{self._virtual_host}\0{method.queue or ''}"
            session.subscriptions[method.destination or ""] = PlayedSubscription(queue, method)
        elif isinstance(method, MessageCancel) and method.destination in session.subscriptions:
            session.subscriptions[method.destination].is_ending = True
        self._result.padded += has_lost_bytes(step.command)
        if live is not step.command:
            self._report_sent(step, live)
        session.sent(step.command_id)
        self._result.sent += 1
        is_as_recorded = live is step.command and all(
            frame.length() <= self._frame_max for frame in step.command.frames
        )
        frames = step.command.frames
        data = b"".join([frame.raw for frame in frames]) if is_as_recorded else live.encode(self._frame_max)
        self._write_frames(data)

    def _renamed(self, assembly: Assembly) -> Assembly:
        """Return the command with the live names of queues and exchanges, and live ids of dtx branches."""
        method = assembly.method
        xid = getattr(method, "xid", None)
        if self._suffix and xid is not None:
            live_xid = replace(xid, global_id=(xid.global_id or b"") + self._suffix.encode())
            return assembly.altered(method=replace(method, xid=live_xid))
        if (getattr(method, "queue", None) or "").startswith(OF_BROKER_J):
            return assembly
        return with_live_names(self._names, CLIENT, assembly)

    def _report_sent(self, step: AssemblySent, live: Assembly) -> None:
        """Report a command that is sent with other names, by its 0-9-1 view, if it has one."""
        before, after = command_view(CLIENT, step.command), command_view(CLIENT, live)
        if before is not None and after is not None and before.index >= 0:
            self._result.sent_as(self._viewed(step, before), after, self._now_ns)

    def _settle(self, step: AssemblySent, session: PlayedSession, method: Any) -> None:
        """Settle the live deliveries that stand for those that the recorded client settled."""
        found: dict[tuple[Amqp010Player, int], CommandIds] = {}
        others = 0
        for ids in ids_of(method.transfers):
            for recorded in session.deliveries_of(ids):
                delivery = session.deliveries[recorded]
                holder = None if delivery is None else delivery.holder
                if delivery is None:
                    continue
                if isinstance(holder, Amqp010Player):
                    live_ids = found.setdefault((holder, delivery.channel), CommandIds())
                    live_ids.extend(delivery.tag, delivery.tag + 1)
                elif delivery.is_open:  # the live broker delivered it to a 0-9-1 client
                    others += 1
                    delivery.holder.settle(delivery, _of_0_9_1(method))
        if not found and not others:
            self._result.unplayed(step, "the deliveries that it settles did not come, or are not in the capture")
            return
        for (holder, number), live_ids in found.items():
            owner = holder._sessions.get(number)
            if owner is session:
                self._send(number, replace(method, transfers=set_of(live_ids)))
                session.sent(step.command_id)
            else:
                holder.settle_transfers(number, method, set_of(live_ids))
        self._result.sent += 1


def _exists(result: ExecutionResult | None) -> bool:
    """Whether the answer to a query has a queue."""
    return result is not None and bool(getattr(result.value, "queue", None))


def _is_refused(step: AssemblySent, ahead: Ahead, accepting: type[Method]) -> bool:
    """Return whether the recorded broker closed the connection, instead of accepting what the client has sent."""
    for answer in ahead.of_broker(step.stream):
        if isinstance(answer, ConnectionEnded):
            return False
        if isinstance(answer, AssemblySent) and isinstance(answer.method, (accepting, controls.ConnectionClose)):
            return isinstance(answer.method, controls.ConnectionClose)
    return False


def _of_0_9_1(method: Command) -> BasicAck | BasicNack:
    """Return the 0-9-1 equivalent of a settlement."""
    return BasicAck() if isinstance(method, MessageAccept) else BasicNack(requeue=isinstance(method, MessageRelease))


def _why_never(method: Command) -> str:
    """Return the reason for which a client command cannot be played; "" if it can be."""
    if method.name.startswith(_NEVER_PLAYED):
        return "the classes file and stream are not played"
    if isinstance(method, MessageResume):
        return "a message that was interrupted in the recording is not interrupted now"
    if isinstance(method, ExecutionResult | ExecutionException):
        return "it answers a command of the recorded broker"
    return ""

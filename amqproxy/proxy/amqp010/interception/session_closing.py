"""Ending a session on both legs, on behalf of a rule or an operator.

The client gets what a broker would send it: an execution.exception and then session.detach, as Broker-J does it. The
broker gets a session.detach, and none of the client's later frames. A command being sent to either is completed first.
"""

from __future__ import annotations

from collections.abc import Mapping

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.command_ids import id_of
from amqproxy.amqp010.commands import ExecutionException
from amqproxy.amqp010.connection import Connection
from amqproxy.amqp010.controls import (
    SessionAttach,
    SessionAttached,
    SessionCommandPoint,
    SessionDetach,
    SessionDetached,
    SessionGap,
    SessionRequestTimeout,
)
from amqproxy.amqp010.domains import DetachCode, Track
from amqproxy.amqp010.frame import Frame
from amqproxy.amqp010.methods import BY_INDEX, Method
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.session import Session
from amqproxy.amqp010.transitions import SessionState
from amqproxy.conversion.amqp010.error_codes import session_code
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp010.interception.actions import Forget, Reopen, Resume, Send, Tell
from amqproxy.proxy.amqp010.interception.path import Cause, ChannelPaths, Path, Rest
from amqproxy.proxy.interception.actions import Actions, Drop, Reply, ShowToTaps
from amqproxy.rules.verdict import Close
from amqproxy.taps.note import LEGS, Note

# Controls after which a client, whose session.detach crossed the proxy's, has answered that or begins anew.
_AFTER_CROSSING = frozenset({SessionAttach.index, SessionDetached.index})


class SessionClosing:
    """Closer of the sessions of one connection, whose legs are `connections`."""

    def __init__(self, connections: Mapping[Peer, Connection]) -> None:
        self._connections = connections
        self._crossed: set[int] = set()

    @property
    def is_awaited(self) -> bool:
        """Whether a client whose session.detach crossed the proxy's has yet to answer that."""
        return bool(self._crossed)

    def close(self, channel: ChannelPaths, cause: Cause, close: Close) -> Actions:
        """Close the session on a channel on both legs."""
        if channel.closing is not None:
            return
        name = cause.name
        if name is None:
            session = self._attached(CLIENT, channel.number)
            name = b"" if session is None else session.name
        for path in channel.directions.values():  # queued frames may end this session and begin the next
            queue = path.take_queue()
            yield Drop(path)
            path.queue = queue
            yield Resume(path)
        channel.closing = set()
        if self._session(SERVER, channel.number) is not None:
            channel.closing.add(SERVER)
            to_server = channel.directions[CLIENT]
            if to_server.is_mid:
                to_server.put_off.append(self._leave(channel.number))
            else:
                yield from self._leave(channel.number)
        if self._session(CLIENT, channel.number) is not None:
            channel.closing.add(CLIENT)
            to_client = channel.directions[SERVER]
            if to_client.is_mid:
                to_client.put_off.append(self._fail(channel, close, name, cause))
            else:
                yield from self._fail(channel, close, name, cause)
        if not channel.closing:
            yield Forget()

    def _attached(self, peer: Peer, number: int) -> Session | None:
        channel = self._connections[peer].channels.get(number)
        return None if channel is None else channel.session

    def _session(self, peer: Peer, number: int) -> Session | None:
        """Return the session that is attached, or being attached, on a peer's leg."""
        session = self._attached(peer, number)
        return session if session is not None and session.state in _OPEN else None

    def _leave(self, number: int) -> Actions:
        """Detach the session from the broker."""
        upstream = self._session(SERVER, number)
        if upstream is None:
            return
        if upstream.timeout != 0:  # it has failed, and must not be resumed
            yield Reply(SERVER, SessionRequestTimeout(0))
        yield Reply(SERVER, SessionDetach(upstream.name))

    def _fail(self, channel: ChannelPaths, close: Close, name: bytes, cause: Cause) -> Actions:
        """Send the client the exception, and then the detach."""
        session = self._session(CLIENT, channel.number)
        if session is None:
            return
        if session.state is SessionState.ATTACHING_BY_CLIENT:
            yield Reply(CLIENT, SessionAttached(name))
        if session.streams[SERVER].next is None:
            yield Reply(CLIENT, SessionCommandPoint(session.streams[SERVER].seen or 0, 0))
        method = BY_INDEX[cause.index] if cause.index >= 0 else None
        yield Reply(
            CLIENT,
            ExecutionException(
                session_code(close.code),
                None if cause.position is None else id_of(cause.position),
                None if method is None else method.class_code,
                None if method is None else method.method_code,
                description=close.text,
            ),
        )
        yield Reply(CLIENT, SessionDetach(name))

    def take(self, channel: ChannelPaths, path: Path, frame: Frame, position: int) -> Actions:
        """Take a frame on a channel whose session is being closed; forward only the rest of a command in progress."""
        closing, sender = channel.closing, path.sender
        assert closing is not None
        if sender not in closing:
            if sender is CLIENT:  # the frame begins the next session
                channel.keep_for_next(frame, position)
            return
        if frame.track == Track.COMMAND:
            if path.is_mid and path.rest is Rest.PASSES and sender.other in closing:
                yield Send(sender, (frame,))
                path.rest = Rest.BEGINS if frame.ends_assembly else Rest.PASSES
            return
        path.controls.append(frame)
        if not frame.ends_assembly:
            return
        frames, path.controls = path.controls, []
        method = Assembly.received(frames).method
        yield from self._take_control(channel, sender, method)
        if sender is CLIENT and isinstance(method, SessionDetached):
            yield Tell(CLIENT, method)
        elif sender is CLIENT and isinstance(method, SessionDetach):
            self._crossed.add(channel.number)
        yield ShowToTaps(sender, frames, Note(leg=LEGS[sender]))
        if not closing:
            yield Reopen()

    def _take_control(self, channel: ChannelPaths, sender: Peer, control: Method) -> Actions:
        """Take a control on a channel whose session is being closed: only those that end the session matter."""
        assert channel.closing is not None
        match control:
            case SessionDetached():
                channel.closing.discard(sender)
                yield from self._cut(channel, sender)
            case SessionDetach() if sender in channel.closing:
                yield Reply(sender, SessionDetached(control.name_, DetachCode.NORMAL))
                channel.closing.discard(sender)
                yield from self._cut(channel, sender)
            case _:
                pass

    def _cut(self, channel: ChannelPaths, sender: Peer) -> Actions:
        """Carry out the actions put off until the end of a command that its detached sender will not complete."""
        path, partner = channel.directions[sender], sender.other
        if not path.is_mid:
            return
        path.is_mid = False
        session = self._session(partner, channel.number)
        following = None if session is None else session.streams[sender].next
        if following is not None and partner is CLIENT:  # the client has to skip the incomplete command
            yield Reply(partner, SessionGap(SequenceSet.of([id_of(following - 1)])))
        while path.put_off:
            yield from path.put_off.popleft()

    def answers_crossing(self, channel: ChannelPaths, frame: Frame) -> bool:
        """Whether this is the client's answer, not forwarded, to a session.detach of the proxy that crossed its own."""
        if channel.number not in self._crossed or frame.index not in _AFTER_CROSSING:
            return False
        self._crossed.remove(channel.number)
        return frame.index == SessionDetached.index and frame.is_whole_segment


_OPEN = frozenset({SessionState.ATTACHED, SessionState.ATTACHING_BY_CLIENT})

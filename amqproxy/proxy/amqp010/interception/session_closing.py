"""How a session is ended on both legs, by a rule or by an operator, and how its end is awaited.

The client gets what a broker would send it: an execution.exception, and then session.detach, as Broker-J does it. The
broker gets a session.detach, and none of what was still to come. Either has a command that it is being sent first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from amqproxy.amqp010.command_ids import id_of
from amqproxy.amqp010.commands import ExecutionException
from amqproxy.amqp010.connection import Connection
from amqproxy.amqp010.controls import (
    SessionAttached,
    SessionCommandPoint,
    SessionDetach,
    SessionDetached,
    SessionGap,
    SessionRequestTimeout,
)
from amqproxy.amqp010.domains import DetachCode
from amqproxy.amqp010.methods import BY_INDEX, Method
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.session import Session
from amqproxy.amqp010.transitions import SessionState
from amqproxy.conversion.error_codes import session_code
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp010.interception.path import ChannelPaths
from amqproxy.rules.verdict import Close

SendOwn = Callable[[Peer, int, Method], None]
"""Sends a control or command of our own to a peer, on a channel."""


class SessionClosing:
    """Closes sessions of one connection, whose legs are `connections`."""

    def __init__(self, connections: Mapping[Peer, Connection], send_own: SendOwn) -> None:
        self._connections = connections
        self._send_own = send_own

    def close(
        self, channel: ChannelPaths, close: Close, name: bytes, position: int | None = None, index: int = -1
    ) -> bool:
        """Begin to close the session `name`; for the client's command at `position`, or what has the `index`.

        False where neither peer has such a session.
        """
        channel.closing = set()
        if self._session(SERVER, channel.number) is not None:
            channel.closing.add(SERVER)
            to_server = channel.paths[CLIENT]
            if to_server.is_mid:
                to_server.put_off.append(lambda: self._leave(channel.number))
            else:
                self._leave(channel.number)
        client = self._session(CLIENT, channel.number)
        if client is not None:
            channel.closing.add(CLIENT)
            to_client = channel.paths[SERVER]
            if to_client.is_mid:
                to_client.put_off.append(lambda: self._fail(channel, close, name, position, index))
            else:
                self._fail(channel, close, name, position, index)
        return bool(channel.closing)

    def _session(self, peer: Peer, number: int) -> Session | None:
        """The session that is attached, or being attached, on the leg of a peer."""
        channel = self._connections[peer].channels.get(number)
        session = None if channel is None else channel.session
        return session if session is not None and session.state in _OPEN else None

    def _leave(self, number: int) -> None:
        """Detach from the broker."""
        upstream = self._session(SERVER, number)
        if upstream is None:
            return
        if upstream.timeout != 0:  # it has failed, and is not to be resumed
            self._send_own(SERVER, number, SessionRequestTimeout(0))
        self._send_own(SERVER, number, SessionDetach(upstream.name))

    def _fail(self, channel: ChannelPaths, close: Close, name: bytes, position: int | None, index: int) -> None:
        """Send the client the exception, and then the detach."""
        session = self._session(CLIENT, channel.number)
        if session is None:
            return
        if session.state is SessionState.ATTACHING_BY_CLIENT:
            self._send_own(CLIENT, channel.number, SessionAttached(name))
        if session.streams[SERVER].next is None:
            self._send_own(CLIENT, channel.number, SessionCommandPoint(session.streams[SERVER].seen or 0, 0))
        method = BY_INDEX[index] if index >= 0 else None
        self._send_own(
            CLIENT,
            channel.number,
            ExecutionException(
                session_code(close.code),
                None if position is None else id_of(position),
                None if method is None else method.class_code,
                None if method is None else method.method_code,
                description=close.text,
            ),
        )
        self._send_own(CLIENT, channel.number, SessionDetach(name))

    def take(self, channel: ChannelPaths, sender: Peer, control: Method) -> None:
        """Take a control on a channel whose session is being closed: what ends it there, and no other."""
        assert channel.closing is not None
        match control:
            case SessionDetached():
                channel.closing.discard(sender)
                self._cut(channel, sender)
            case SessionDetach() if sender in channel.closing:
                self._send_own(sender, channel.number, SessionDetached(control.name_, DetachCode.NORMAL))
                channel.closing.discard(sender)
                self._cut(channel, sender)
            case _:
                pass

    def _cut(self, channel: ChannelPaths, sender: Peer) -> None:
        """A peer has detached: where it was in the middle of a command, what waits for its end need not."""
        path, partner = channel.paths[sender], sender.other
        if not path.is_mid:
            return
        path.is_mid = False
        session = self._session(partner, channel.number)
        following = None if session is None else session.streams[sender].next
        if following is not None and partner is CLIENT:  # to it, that is a command that will not come
            self._send_own(partner, channel.number, SessionGap(SequenceSet.of([id_of(following - 1)])))
        while path.put_off:
            path.put_off.popleft()()


_OPEN = frozenset({SessionState.ATTACHED, SessionState.ATTACHING_BY_CLIENT})

"""Insertion of the proxy's commands between those of a peer, with a record of their positions."""

from __future__ import annotations

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.command_ids import id_of
from amqproxy.amqp010.controls import SessionCommandPoint, SessionRequestTimeout
from amqproxy.amqp091.errors import Scope
from amqproxy.peer import SERVER, Peer
from amqproxy.proxy.amqp010.interception.actions import Insert, SendOwn
from amqproxy.proxy.amqp010.interception.legs import Legs
from amqproxy.proxy.amqp010.interception.path import ChannelPaths
from amqproxy.proxy.interception.actions import Actions, CloseChannel, Reply
from amqproxy.rules.verdict import Close

MAX_INSERTIONS = 65_536
"""Maximum of insertions among the commands of one peer of a session that may still be referred to."""

MAX_PUT_OFF = 16_384
"""Maximum of insertions queued on a channel until a command being sent is complete."""


class OwnCommands:
    """Inserter of commands on one connection, whose `legs` know the commands sent to each peer."""

    def __init__(self, legs: Legs) -> None:
        self._legs = legs

    def insert(self, channel: ChannelPaths, to: Peer, assembly: Assembly) -> Actions:
        """Send a command of the proxy once no other command is being sent."""
        path, legs, number = channel.directions[to.other], self._legs, channel.number
        if path.is_mid:
            if len(path.put_off) >= MAX_PUT_OFF:
                text = f"more than {MAX_PUT_OFF} answers of rules that wait for the end of another command"
                yield CloseChannel(None, Close(Scope.CHANNEL, 506, text))
                return
            path.put_off.append((Insert(to, assembly),))
            return
        session = legs.session(to, number)
        if session is None:
            return
        position = session.streams[to.other].next
        if position is None:
            position = session.streams[to.other].seen or 0
            yield Reply(to, SessionCommandPoint(id_of(position), 0))
        insertions = channel.insertions[to.other]
        if len(insertions) >= MAX_INSERTIONS:
            insertions.forget(self._lowest_live(to.other, number))
        if len(insertions) >= MAX_INSERTIONS:
            text = f"more than {MAX_INSERTIONS} answers of rules that may still be referred to"
            yield CloseChannel(None, Close(Scope.CHANNEL, 506, text))
            return
        upstream = legs.session(SERVER, number)
        if not insertions and upstream is not None and upstream.timeout != 0:
            # The numbers of both legs differ from here on, and a later connection would not know the difference.
            channel.own_timeouts += 1
            yield Reply(SERVER, SessionRequestTimeout(0))
        insertions.add(position)
        yield SendOwn(to, assembly)

    def _lowest_live(self, sender: Peer, number: int) -> int:
        """Return the lowest position of a command of `sender`, in its own count, that may still be referred to."""
        session = self._legs.session(sender, number)
        if session is None:
            return 0
        stream, transfers = session.streams[sender], session.transfers[sender]
        held = (stream.incomplete, stream.completed, transfers.acquired, transfers.not_acquired)
        return min([each.first for each in held if each.first is not None], default=stream.next or 0)

"""Closing one channel on both legs, on behalf of a peer, of both at once, of a rule, or of an operator."""

from __future__ import annotations

from collections.abc import Mapping

from amqproxy.amqp091.channel import Channel
from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.errors import Scope
from amqproxy.amqp091.methods import ChannelClose, ChannelCloseOk
from amqproxy.amqp091.transitions import CLIENT, SERVER, ChannelState, Peer
from amqproxy.proxy.amqp091.interception.actions import Forget
from amqproxy.proxy.interception.actions import Actions, Reply
from amqproxy.rules.verdict import Close
from amqproxy.taps.note import Note

CLOSED_BY_RULE = "closed by a rule of the proxy"
"""Reply text for the other peer when a rule closes a channel that is open there."""


CLOSED_BY_BOTH = Close(Scope.CHANNEL, 200, "closed by both peers")
"""The close of a channel that both peers have closed: each is only answered."""


def takes_close(connections: Mapping[Peer, Connection], number: int) -> bool:
    """Whether a close must be sent or answered: not if one peer has closed, and the other has received its close."""
    channels = [connection.channels.get(number) for connection in connections.values()]
    is_open = any(channel is not None and channel.takes_frames for channel in channels)
    return is_open or any(is_unanswered(connections, number, peer) for peer in (CLIENT, SERVER))


def is_unanswered(connections: Mapping[Peer, Connection], number: int, peer: Peer) -> bool:
    """Whether the peer has closed the channel, but the other has not received its close and will not answer it."""
    own, other = connections[peer].channels.get(number), connections[peer.other].channels.get(number)
    return _has_closed(peer, own) and not _has_closed(peer, other)


def close_both(
    connections: Mapping[Peer, Connection], number: int, close: Close, class_and_method: tuple[int, int], note: Note
) -> Actions:
    """Close the channel on both legs; code and text go to the receiver that the close names."""
    receiver = close.receiver or CLIENT
    error = ChannelClose(close.code, close.text, *class_and_method)
    farewell = ChannelClose(200, close.farewell or CLOSED_BY_RULE, 0, 0)
    for peer in (CLIENT, SERVER):
        channel = connections[peer].channels.get(number)
        if _has_closed(peer, channel):
            yield Reply(peer, ChannelCloseOk(), note)
        elif channel is not None and channel.takes_frames:
            yield Reply(peer, error if peer is receiver else farewell, note)
    yield Forget()


def _has_closed(peer: Peer, channel: Channel | None) -> bool:
    by_peer = ChannelState.CLOSED_BY_CLIENT if peer is CLIENT else ChannelState.CLOSED_BY_SERVER
    return channel is not None and channel.state in (by_peer, ChannelState.CLOSED_BY_BOTH)

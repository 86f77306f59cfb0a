"""Attaching an interceptor to an open connection, whose earlier frames it has not seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from amqproxy.amqp010.command_numbering import CommandNumbering
from amqproxy.amqp010.connection import Connection
from amqproxy.amqp010.domains import AcceptMode, AcquireMode, Track
from amqproxy.amqp010.session import Session
from amqproxy.amqp010.subscription import Subscription
from amqproxy.amqp010.transaction import TransactionMode
from amqproxy.peer import Peer
from amqproxy.taps.metering.amqp010.meter import AttachmentMeter

UnderWay = Mapping[Peer, set[tuple[int, int]]]
"""For each sender, the channels and tracks on which a control or command is incomplete."""


def join_sessions(
    connections: Mapping[Peer, Connection],
    numberings: Mapping[Peer, CommandNumbering],
    under_way: UnderWay,
    metered: Callable[[int], AttachmentMeter | None],
) -> None:
    """Make both legs track the attached sessions.

    The client's subscriptions and transaction mode are taken from the meter that `metered` returns, if there is one.
    """
    for connection in connections.values():
        for number, channel in connection.channels.items():
            for peer in Peer:
                is_mid_command = (number, int(Track.COMMAND)) in under_way[peer]
                channel.join(peer, numberings[peer].following(number), is_mid_command=is_mid_command)
            meter = metered(number)
            if channel.session is not None and meter is not None:
                _catch_up(channel.session, meter)


def _catch_up(session: Session, meter: AttachmentMeter) -> None:
    for destination, subscribed in meter.consumers.items():
        mode = AcceptMode.NONE if subscribed.no_ack else AcceptMode.EXPLICIT
        modes = (int(mode), int(AcquireMode.PRE_ACQUIRED))
        session.subscriptions[destination] = Subscription(destination, subscribed.queue, modes)
    if meter.is_transactional:
        session.transaction.mode = TransactionMode.TX

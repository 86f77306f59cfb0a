"""Frames of a simulation in another order than they passed, as a capture may have them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import cycle

from amqproxy.amqp091.frame import BODY, HEADER, METHOD
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicDeliver,
    BasicGetOk,
    BasicNack,
    BasicRecover,
    BasicRecoverOk,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConnectionClose,
    ConnectionCloseOk,
    TxRollback,
)
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.taps.trace.amqp091.connection_trace import Trace
from amqproxy.taps.trace.events import TraceEvent
from tests.taps.trace.simulation import Passed


def delayed(passed: list[Passed], delays: list[int], sender: Peer | None = None) -> list[Passed]:
    """The same frames, of which some come later: each direction stays in order."""
    latest = {CLIENT: 0, SERVER: 0}
    places = []
    for place, (each, delay) in enumerate(zip(passed, cycle(delays), strict=False)):
        if each.sender is (sender or each.sender):
            latest[each.sender] = max(latest[each.sender], place + delay)
        else:
            latest[each.sender] = place
        places.append((latest[each.sender], place))
    return [passed[place] for _, place in sorted(places)]


def fed(trace: Trace, passed: Iterable[Passed]) -> list[TraceEvent]:
    """What happens with each frame in a read of its own, so that no two have the same time."""
    trace.feed_protocol_header(0)
    events: list[TraceEvent] = []
    for ts_ns, each in enumerate(passed, 1):
        events += trace.feed(each.sender, [each.frame], ts_ns)
    return events + trace.end(1_000_000, "over")


def is_settled_in_turn(passed: list[Passed]) -> bool:
    """Does the client settle only what was delivered, and each tag by its number?

    What it settles with tag 0, or before it is delivered, or while the broker recovers, depends on the order; and so
    does what the broker recovers while a rollback opens deliveries again.
    """
    last: Counter[int] = Counter()
    recovered: Counter[int] = Counter()
    recovering: Counter[int] = Counter()
    rollbacks: Counter[int] = Counter()
    tag: Counter[int] = Counter()
    remaining: Counter[int] = Counter()
    for each in passed:
        frame, channel = each.frame, each.frame.channel
        method = frame.method if frame.kind == METHOD else None
        if each.sender is SERVER and frame.kind in (HEADER, BODY):
            remaining[channel] += frame.header.body_size if frame.kind == HEADER else -frame.size
            if not remaining[channel]:
                last[channel] = tag[channel]
        match method:
            case ChannelOpen():
                last[channel] = tag[channel] = recovered[channel] = recovering[channel] = 0
            case BasicDeliver() | BasicGetOk():
                tag[channel] = method.delivery_tag
            case BasicRecover() if rollbacks[channel]:
                return False
            case TxRollback() if any(recovering):
                return False
            case TxRollback():
                rollbacks[channel] += 1
            case BasicRecover():
                recovering[channel] += 1
            case BasicRecoverOk():
                recovering[channel] -= 1
                recovered[channel] = last[channel]
            case BasicAck() | BasicNack() | BasicReject() if each.sender is SERVER:
                if method.delivery_tag == 0:
                    return False
            case BasicAck() | BasicNack() | BasicReject():
                if recovering[channel] or not recovered[channel] < method.delivery_tag <= last[channel]:
                    return False
            case _:
                pass
    return True


def races(passed: list[Passed], seen: list[Passed]) -> bool:
    """Did the client send something on a channel that the broker had closed? Then no order is the true one."""
    return any(_are_late(each) for each in (passed, seen))


def _are_late(passed: list[Passed]) -> bool:
    closed: Counter[int] = Counter()
    for each in passed:
        frame = each.frame
        method = frame.method if frame.kind == METHOD else None
        if each.sender is SERVER:
            if isinstance(method, (ChannelClose, ConnectionClose)):
                closed[frame.channel] += 1
        elif isinstance(method, (ChannelCloseOk, ConnectionCloseOk)):
            closed[frame.channel] -= 1
        elif closed[0] > 0 or closed[frame.channel] > 0:
            return True
    return False

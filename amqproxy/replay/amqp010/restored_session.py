"""Sessions that were attached when a recording began, attached live in their recorded state."""

from __future__ import annotations

from collections.abc import Container, Iterator

from amqproxy.amqp010.commands import DtxSelect, MessageFlow, MessageSubscribe, TxSelect
from amqproxy.amqp010.domains import AcceptMode, AcquireMode, CreditUnit
from amqproxy.amqp010.methods import Command
from amqproxy.taps.trace.snapshot import UNKNOWN_CONSUMER, ChannelSnapshot, ConsumerSnapshot

INFINITE = 0xFFFF_FFFF
"""Credit without a limit: recordings hold no credit of subscriptions that began before them."""

_MAX_NAME = 255


def subscriptions_of(state: ChannelSnapshot) -> list[ConsumerSnapshot]:
    """Return the subscriptions that can be started: those with a name, and a queue that is known."""
    return [
        each
        for each in state.consumers
        if each.tag != UNKNOWN_CONSUMER
        and each.queue
        and len(each.queue.encode()) <= _MAX_NAME
        and len(each.tag.encode()) <= _MAX_NAME
    ]


def restoring_commands(state: ChannelSnapshot, missing: Container[str] = ()) -> Iterator[Command]:
    """Yield what a client sends in a new session to bring it into a recorded state, except for `missing` queues."""
    if state.mode == "tx":
        yield TxSelect()
    elif state.mode == "dtx":
        yield DtxSelect()
    for each in subscriptions_of(state):
        if each.queue in missing:
            continue
        accept_mode = AcceptMode.NONE if each.no_ack else AcceptMode.EXPLICIT
        yield MessageSubscribe(each.queue, each.tag, accept_mode, AcquireMode.PRE_ACQUIRED, exclusive=each.exclusive)
        for unit in CreditUnit:
            yield MessageFlow(each.tag, unit, INFINITE)

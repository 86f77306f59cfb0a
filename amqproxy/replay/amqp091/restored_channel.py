"""Channels that were open when a recording began, opened live in their recorded state."""

from __future__ import annotations

from collections.abc import Container, Iterator

from amqproxy.amqp091.methods import BasicConsume, ConfirmSelect, Method, TxSelect
from amqproxy.replay.amqp091.played_channel import PlayedChannel
from amqproxy.taps.trace.snapshot import UNKNOWN_CONSUMER, ChannelSnapshot, ConsumerSnapshot

MAX_CHANNEL = 65_535
MAX_SHORT_STRING = 255

_SERVER_NAMED = "amq.gen"
"""Prefix of queue names that a broker chose: such a queue does not exist on another broker."""


def fits(name: str) -> bool:
    """Whether a name fits a short string of the protocol; in a damaged recording it may not."""
    return len(name.encode()) <= MAX_SHORT_STRING


def restored_channel(state: ChannelSnapshot) -> PlayedChannel | None:
    """Return a channel in its recorded state, to be opened live; `None` if it was closing or has no valid number."""
    if state.closing or not 0 < state.number <= MAX_CHANNEL:
        return None
    channel = PlayedChannel(state.number, is_unknown=True)
    channel.last_queue = state.last_queue or ""
    channel.last_recorded_tag = state.delivered or 0
    channel.probed.extend(
        dict.fromkeys([each.queue for each in consumers_of(state) if each.queue and each.queue != state.last_queue])
    )
    if state.last_queue and fits(state.last_queue) and not state.last_queue.startswith(_SERVER_NAMED):
        channel.probed.append(state.last_queue)  # the last one: an empty queue name stands for it from then on
    channel.is_confirming = state.mode == "confirm"
    channel.is_transactional = state.mode == "tx"
    if channel.is_confirming:
        channel.recorded_publishes = state.published
    return channel


def consumers_of(state: ChannelSnapshot) -> list[ConsumerSnapshot]:
    """Return the consumers that can be started, without those of unknown queues, and of queues the broker named."""
    return [
        each
        for each in state.consumers
        if each.tag != UNKNOWN_CONSUMER
        and each.queue
        and not each.queue.startswith(_SERVER_NAMED)
        and fits(each.tag)
        and fits(each.queue)
    ]


def restoring_methods(state: ChannelSnapshot, missing: Container[str] = ()) -> Iterator[Method]:
    """Yield what a client sends on a new channel to bring it into a recorded state, without replies where possible.

    Left out are consumers of queues that are `missing`, and those that `consumers_of` leaves out.
    """
    if state.mode == "confirm":
        yield ConfirmSelect(no_wait=True)
    elif state.mode == "tx":
        yield TxSelect()
    for each in consumers_of(state):
        if each.queue not in missing:
            yield BasicConsume(
                queue=each.queue or "",
                consumer_tag=each.tag,
                no_ack=each.no_ack,
                exclusive=each.exclusive,
                no_wait=True,
            )

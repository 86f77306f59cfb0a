"""Consumers for one message each."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import BasicAck, BasicCancel, BasicCancelOk, BasicDeliver, BasicNack, ChannelClose
from tests.taps.findings.inspected import Inspected


def consume(inspected: Inspected, first: int, acked: int, requeued: int = 0, *, late: bool = False) -> int:
    """Consume, ack so many messages, and let go of so many others; the tag that is next."""
    inspected.consuming()
    last = first + acked + requeued
    inspected.server(*[BasicDeliver("c", tag, False, "e", "k") for tag in range(first, last)])
    cancel = lambda: (inspected.client(BasicCancel("c")), inspected.server(BasicCancelOk("c")))  # noqa: E731
    if late:
        cancel()
    inspected.client(*[BasicAck(tag) for tag in range(first, first + acked)])
    if not late:
        cancel()
    inspected.client(*[BasicNack(tag, requeue=True) for tag in range(first + acked, last)])
    return last


@pytest.mark.parametrize(
    ("times", "acked", "requeued", "kinds"),
    [
        (10, 1, 0, ["consumer-per-message"]),
        (10, 0, 0, ["consumer-per-message"]),
        (10, 1, 1, ["consumer-per-message"]),  # with a prefetch of 1, the next comes before the cancel
        (10, 1, 9, ["consumer-per-message"]),
        (9, 1, 0, []),
        (30, 2, 0, []),
        (30, 2, 5, []),
    ],
)
@pytest.mark.parametrize("late", [False, True])
def test_consumers_in_a_row(times: int, acked: int, requeued: int, kinds: list[str], late: bool) -> None:
    inspected = Inspected(1)
    tag = 1
    for _ in range(times):
        tag = consume(inspected, tag, acked, requeued, late=late)
    inspected.client(ChannelClose())
    assert inspected.kinds == kinds


def test_the_next_consumer_shows_it() -> None:
    inspected = Inspected(1)
    for number in range(10):
        consume(inspected, number + 1, 1)
    assert inspected.kinds == []
    inspected.consuming()
    assert inspected.kinds == ["consumer-per-message"]


def test_one_without_acknowledgements() -> None:
    inspected = Inspected(1)
    for number in range(20):
        inspected.consuming(no_ack=True)
        inspected.server(*[BasicDeliver("c", 2 * number + each, False, "e", "k") for each in (1, 2)])
        inspected.client(BasicCancel("c"))
        inspected.server(BasicCancelOk("c"))
    assert inspected.kinds == []

"""Arguments that the broker does not accept; the texts are those of RabbitMQ 3.10."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import ChannelClose, QueueDeclare
from tests.taps.findings.inspected import Inspected

TEXTS = (
    "invalid arg 'x-expires' for queue 'q' in vhost '/': {value_zero,0}",
    "invalid arg 'x-message-ttl' for queue 'q' in vhost '/': \"expected integer, got longstr\"",
    "invalid property 'non-durable' for queue 'q' in vhost '/'",
)


@pytest.mark.parametrize("text", TEXTS)
def test_the_argument_and_the_reason_are_named(text: str) -> None:
    inspected = Inspected(1)
    inspected.client(QueueDeclare(queue="q", durable=True))
    inspected.server(ChannelClose(406, f"PRECONDITION_FAILED - {text}", 50, 10))
    assert [(each.kind, each.text) for each in inspected.findings] == [("invalid-argument", text)]

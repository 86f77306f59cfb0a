"""Views that no 0-9-1 peer sends."""

from __future__ import annotations

from amqproxy.amqp091.methods import QueueDeclareOk
from amqproxy.conversion.view_fields import QueueQueryOk


def test_the_alternate_exchange_of_a_queue_is_seen_by_rules_and_never_sent() -> None:
    answer = QueueQueryOk("q", 1, 2, alternate_exchange="spare")
    assert answer.name == QueueDeclareOk.name
    assert answer.encode() == QueueDeclareOk("q", 1, 2).encode()

"""Arguments of Qpid's as the model has them."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp010.wire import Map
from amqproxy.broker.amqp010.declare_arguments import exchange_arguments, queue_arguments, shown_arguments


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({"qpid.max_count": 5}, {"x-max-length": 5, "x-overflow": "reject-publish"}),
        ({"qpid.max_count": "5"}, {"x-max-length": 5, "x-overflow": "reject-publish"}),
        ({"qpid.max_size": 5, "qpid.policy_type": "ring"}, {"x-max-length-bytes": 5, "x-overflow": "drop-head"}),
        ({"qpid.priorities": 10}, {"x-max-priority": 9}),
        ({"x-qpid-priorities": 1}, {}),
        ({"qpid.auto_delete_timeout": 3}, {"x-expires": 3000}),
        ({"qpid.max_count": -1, "qpid.max_size": True}, {"x-overflow": "reject-publish"}),
        ({"x-max-length": 7}, {}),
        ({"anything": None}, {}),
    ],
)
def test_a_queue_has_both(given: dict[str, Any], made: dict[str, Any]) -> None:
    arguments = queue_arguments(Map(given), None)
    assert dict(arguments) == given | made
    assert dict(shown_arguments(arguments)) == given


def test_the_alternate_exchange_is_an_argument_that_is_not_shown() -> None:
    queue = queue_arguments(None, "x")
    assert dict(queue) == {"x-dead-letter-exchange": "x"}
    exchange = exchange_arguments(Map({"k": 1, "alternate-exchange": "other"}), "x")
    assert dict(exchange) == {"k": 1, "alternate-exchange": "x"}
    assert dict(shown_arguments(exchange)) == {"k": 1}
    assert dict(shown_arguments(queue)) == {}

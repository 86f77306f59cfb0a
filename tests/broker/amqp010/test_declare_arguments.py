"""Arguments of Qpid's as the model has them."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp010.errors import IllegalArgument
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
        ({"qpid.max_count": 5, "qpid.policy_type": "RING"}, {"x-max-length": 5, "x-overflow": "drop-head"}),
        ({"qpid.exclusivity_policy": "NONE", "qpid.lifetime_policy": "PERMANENT"}, {}),
        ({"x-qpid-description": "for tests", "no-local": True}, {}),
        ({"x-max-length": 7}, {}),
        ({"anything": None}, {}),
    ],
)
def test_a_queue_has_both(given: dict[str, Any], made: dict[str, Any]) -> None:
    arguments = queue_arguments(Map(given), None)
    assert dict(arguments) == given | made
    assert dict(shown_arguments(arguments)) == given


@pytest.mark.parametrize(
    "given",
    [
        {"qpid.max_count": -1},
        {"qpid.max_size": True},
        {"qpid.max_size": 3.14159},
        {"qpid.max_count": "foo"},
        {"qpid.policy_type": "flow_to_disk"},
        {"qpid.policy_type": 1},
        {"qpid.exclusivity_policy": "PRINCIPAL"},
        {"qpid.exclusivity_policy": "CONNECTION"},
        {"qpid.lifetime_policy": "DELETE_ON_CONNECTION_CLOSE"},
        {"qpid.lifetime_policy": "DELETE_ON_NO_LINKS"},
        {"qpid.last_value_queue": 1},
        {"qpid.last_value_queue_key": "k"},
        {"qpid.group_header_key": "g", "qpid.shared_msg_group": 1},
        {"qpid.queue_sort_key": "k"},
        {"qpid.nonsense": 1},
        {"x-qpid-capacity": 1000},
    ],
)
def test_what_cannot_be_honoured_is_refused(given: dict[str, Any]) -> None:
    """Qpid's C++ broker refuses the invalid numbers, Broker-J 9.2 all arguments that it does not know, with 531."""
    with pytest.raises(IllegalArgument) as caught:
        queue_arguments(Map(given), None)
    assert next(iter(given)) in caught.value.reply_text


def test_an_exclusive_queue_is_marked_so() -> None:
    marked = {"qpid.exclusivity_policy": "SESSION"}
    assert dict(queue_arguments(None, None, is_exclusive=True)) == marked
    given = {"qpid.exclusivity_policy": "NONE"}
    assert dict(queue_arguments(Map(given), None, is_exclusive=True)) == given


def test_the_alternate_exchange_is_an_argument_that_is_not_shown() -> None:
    queue = queue_arguments(None, "x")
    assert dict(queue) == {"x-dead-letter-exchange": "x"}
    exchange = exchange_arguments(Map({"k": 1, "alternate-exchange": "other"}), "x")
    assert dict(exchange) == {"k": 1, "alternate-exchange": "x"}
    assert dict(shown_arguments(exchange)) == {"k": 1}
    assert dict(shown_arguments(queue)) == {}

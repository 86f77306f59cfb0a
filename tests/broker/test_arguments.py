"""Arguments: what counts as equal, and RabbitMQ's text where it does not."""

from typing import Any

import pytest

from amqproxy.amqp091.errors import PreconditionFailed
from amqproxy.amqp091.wire import Field, Item, Table
from amqproxy.broker.arguments import check_equivalent, check_same, comparable, in_order


@pytest.mark.parametrize(
    ("received", "current", "expected"),
    [
        ({}, {}, None),
        ({"a": 1}, {"a": 1}, None),
        ({"a": Item("b", 5)}, {"a": Item("l", 5)}, None),
        ({"a": "k"}, {"a": "k"}, None),
        ({"other": 1}, {"other": 2}, None),
        ({"a": 1}, {"a": 2}, "received '1' but current is '2'"),
        ({"a": "1"}, {"a": 1}, "received '1' but current is '1'"),
        ({"a": True}, {"a": 1}, "received 'true' but current is '1'"),
        ({"a": 1.0}, {"a": 1}, "received '1.0' but current is '1'"),
        ({}, {"a": 1}, "received none but current is the value '1' of type 'signedint'"),
        ({"a": Item("l", 1)}, {}, "received the value '1' of type 'long' but current is none"),
        ({"a": False}, {}, "received the value 'false' of type 'bool' but current is none"),
    ],
)
def test_equivalence(received: dict[str, Any], current: dict[str, Any], expected: str | None) -> None:
    def check() -> None:
        check_equivalent("queue 'q'", "/", ("a",), Table(received), Table(current))

    if expected is None:
        check()
        return
    with pytest.raises(PreconditionFailed) as error:
        check()
    assert error.value.text == f"inequivalent arg 'a' for queue 'q' in vhost '/': {expected}"


def test_flags() -> None:
    check_same("queue 'q'", "/", {"durable": (True, True)})
    with pytest.raises(
        PreconditionFailed, match="inequivalent arg 'durable' for queue 'q' in vhost '/': received 'true'"
    ):
        check_same("queue 'q'", "/", {"auto_delete": (False, False), "durable": (True, False)})


def test_order() -> None:
    one, other = Table([Field("b", "I", 1), Field("a", "I", 2)]), Table([Field("a", "I", 2), Field("b", "I", 1)])
    assert one != other
    assert in_order(one) == in_order(other)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (1, 1.0, True),
        (1, True, False),
        (True, True, True),
        ("a", b"a", True),
        ("\udcff", b"\xff", True),
        (None, 0, False),
    ],
)
def test_comparable(one: object, other: object, expected: bool) -> None:
    assert (comparable(one) == comparable(other)) is expected

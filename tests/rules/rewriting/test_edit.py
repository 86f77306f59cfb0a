"""Entries, set and removed and bounded."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given

from amqproxy.amqp091.methods import BasicConsume, BasicPublish, BasicQos, Method, QueueDeclare
from amqproxy.amqp091.properties import NO_PROPERTIES, Properties
from amqproxy.amqp091.wire import Field, Table
from amqproxy.rules.rewriting.edit import FIELDS, Edit, check_fields, check_properties
from amqproxy.rules.verdict import Stage
from tests.amqp091 import strategies
from tests.rules.scene import from_client

SEEN = from_client(BasicPublish(exchange="e"), Properties(priority=3, headers=Table({"n": 5, "a": ["x"]})), b"body")
HALF = Decimal("0.5")


def edit(**keys: Any) -> Edit:
    return msgspec.convert(keys, Edit)


def fields(*entries: tuple[str, str, Any]) -> Table:
    return Table(Field(*entry) for entry in entries)


@pytest.mark.parametrize(
    ("keys", "before", "after"),
    [
        ({"set": {"a": "x"}}, [], [("a", "S", "x")]),
        ({"set": {"a": 1, "b": True, "c": None}}, [], [("a", "I", 1), ("b", "t", True), ("c", "V", None)]),
        ({"set": {"a": "x"}}, [("a", "B", 1), ("b", "s", 2), ("a", "I", 3)], [("a", "S", "x"), ("b", "s", 2)]),
        ({"set": {"a": "{user} {exchange}"}}, [], [("a", "S", "guest e")]),
        ({"set": {"a": "{headers.n}", "b": "{headers.none}"}}, [], [("a", "I", 5)]),
        ({"set": {"a": "{{x}}"}}, [], [("a", "S", "{x}")]),
        ({"set": {"a": {"b": ["{user}"]}}}, [], [("a", "F", Table({"b": ["{user}"]}))]),
        ({"default": {"a": 1}}, [("a", "B", 7)], [("a", "B", 7)]),
        ({"default": {"a": 1}}, [("b", "B", 7)], [("b", "B", 7), ("a", "I", 1)]),
        ({"remove": ["a"]}, [("a", "B", 7), ("b", "B", 7), ("a", "B", 8)], [("b", "B", 7)]),
        ({"remove": ["x-*", "b"]}, [("x-a", "B", 7), ("b", "B", 7), ("c", "D", HALF)], [("c", "D", HALF)]),
        ({"remove": ["!keep"]}, [("a", "B", 7), ("keep", "B", 7)], [("keep", "B", 7)]),
        ({"rename": {"a": "b"}}, [("a", "B", 7), ("c", "B", 1)], [("b", "B", 7), ("c", "B", 1)]),
        ({"rename": {"a": "b"}}, [("b", "B", 1), ("a", "B", 7)], [("b", "B", 7)]),
        ({"rename": {"a": "b"}}, [("b", "B", 1)], [("b", "B", 1)]),
        ({"rename": {"a": "b", "b": "a"}}, [("a", "B", 1), ("b", "B", 2)], [("b", "B", 1), ("a", "B", 2)]),
        ({"at_most": {"ttl": 100}}, [("ttl", "l", 5000)], [("ttl", "l", 100)]),
        ({"at_most": {"ttl": 100}}, [("ttl", "B", 99)], [("ttl", "B", 99)]),
        ({"at_most": {"ttl": 100}}, [], []),
        ({"at_most": {"ttl": 100}}, [("ttl", "S", "5000")], [("ttl", "S", "5000")]),
        ({"at_most": {"ttl": 100}}, [("ttl", "t", True)], [("ttl", "t", True)]),
        ({"at_most": {"ttl": -1}}, [("ttl", "B", 5)], [("ttl", "I", -1)]),
        ({"at_most": {"ttl": 1.5}}, [("ttl", "I", 5)], [("ttl", "d", 1.5)]),
        ({"at_most": {"ttl": 1}}, [("ttl", "D", Decimal("2.5"))], [("ttl", "I", 1)]),
        ({"at_most": {"ttl": 1}}, [("ttl", "d", 2.5)], [("ttl", "d", 1)]),
        ({"at_least": {"ttl": 300}}, [("ttl", "B", 5)], [("ttl", "I", 300)]),
        ({"at_least": {"ttl": 300}}, [("ttl", "l", 5)], [("ttl", "l", 300)]),
        ({"rename": {"a": "b"}, "remove": ["c"], "at_most": {"b": 1}, "default": {"d": 2}, "set": {"e": 3}},
         [("a", "B", 9), ("c", "B", 1)], [("b", "B", 1), ("d", "I", 2), ("e", "I", 3)]),
    ],
)  # fmt: skip
def test_tables(keys: dict[str, Any], before: list[tuple[str, str, Any]], after: list[tuple[str, str, Any]]) -> None:
    assert edit(**keys).of_table(fields(*before), SEEN).fields == tuple(Field(*entry) for entry in after)


@given(strategies.tables)
def test_what_finds_nothing_to_change_leaves_the_very_table(table: Table) -> None:
    nothing = edit(rename={"\x00a": "\x00b"}, remove=["\x00c"], at_most={"\x00d": 1}, set={"\x00e": "{headers.none}"})
    assert nothing.of_table(table, SEEN) is table


@given(strategies.tables)
def test_other_entries_keep_their_types(table: Table) -> None:
    new = edit(set={"\x00new": 1}).of_table(table, SEEN)
    assert new.fields == (*table.fields, Field("\x00new", "I", 1))


@pytest.mark.parametrize(
    ("keys", "before", "after"),
    [
        ({"set": {"content_type": "text/plain"}}, NO_PROPERTIES, Properties(content_type="text/plain")),
        ({"set": {"priority": 9, "app_id": "{user}"}}, Properties(priority=1), Properties(priority=9, app_id="guest")),
        ({"set": {"priority": "{headers.n}"}}, NO_PROPERTIES, Properties(priority=5)),
        ({"set": {"message_id": "{headers.n}"}}, NO_PROPERTIES, Properties(message_id="5")),
        ({"set": {"priority": "{headers.none}"}}, Properties(priority=1), Properties(priority=1)),
        ({"default": {"delivery_mode": 2}}, Properties(delivery_mode=1), Properties(delivery_mode=1)),
        ({"default": {"delivery_mode": 2}}, NO_PROPERTIES, Properties(delivery_mode=2)),
        ({"remove": ["user_id", "cluster*"]}, Properties(user_id="u", type="t"), Properties(type="t")),
        ({"rename": {"correlation_id": "message_id"}}, Properties(correlation_id="1"), Properties(message_id="1")),
        ({"rename": {"priority": "reply_to"}}, Properties(priority=3), Properties(reply_to="3")),
        ({"rename": {"reply_to": "priority"}}, Properties(reply_to="3"), Properties(priority=3)),
        ({"at_most": {"priority": 4}}, Properties(priority=9), Properties(priority=4)),
        ({"at_most": {"expiration": 1000}}, Properties(expiration="60000"), Properties(expiration="1000")),
        ({"at_most": {"expiration": 1000}}, Properties(expiration="soon"), Properties(expiration="soon")),
        ({"at_least": {"priority": 4}}, NO_PROPERTIES, NO_PROPERTIES),
    ],
)
def test_properties(keys: dict[str, Any], before: Properties, after: Properties) -> None:
    made = edit(**keys)
    check_properties(made)
    assert made.of_properties(before, SEEN) == after


@pytest.mark.parametrize("keys", [{"priority": "{routing_key}"}, {"priority": "{exchange}"}, {"type": "{body}" * 80}])
def test_a_value_that_does_not_fit_is_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"a number of 8 bits|at most 255 bytes"):
        edit(set=keys).of_properties(NO_PROPERTIES, SEEN)


def test_properties_that_do_not_change_are_the_very_same() -> None:
    assert edit(remove=["type"]).of_properties(NO_PROPERTIES, SEEN) is NO_PROPERTIES


@pytest.mark.parametrize(
    ("keys", "before", "after"),
    [
        ({"set": {"durable": True}}, QueueDeclare(queue="q"), QueueDeclare(queue="q", durable=True)),
        ({"set": {"durable": True, "no_ack": True}}, BasicConsume(queue="q"), BasicConsume(queue="q", no_ack=True)),
        ({"set": {"durable": True}}, BasicPublish(), BasicPublish()),
        ({"set": {"prefetch_count": 10, "global": True}}, BasicQos(), BasicQos(prefetch_count=10, global_=True)),
        ({"at_most": {"prefetch_count": 10}}, BasicQos(prefetch_count=0), BasicQos(prefetch_count=10)),
        ({"at_most": {"prefetch_count": 10}}, BasicQos(prefetch_count=99), BasicQos(prefetch_count=10)),
        ({"at_least": {"prefetch_count": 10}}, BasicQos(prefetch_count=0), BasicQos(prefetch_count=0)),
        ({"at_least": {"prefetch_count": 10}}, BasicQos(prefetch_count=3), BasicQos(prefetch_count=10)),
    ],
)
def test_fields(keys: dict[str, Any], before: Method, after: Method) -> None:
    made = edit(**keys)
    check_fields(made)
    assert made.of_fields(before, SEEN) == after


def test_the_fields_that_cannot_be_edited() -> None:
    assert not FIELDS.keys() & {
        "delivery_tag",
        "multiple",
        "no_wait",
        "exchange",
        "arguments",
        "response",
        "channel_max",
    }


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"set": {"a": "{nobody}"}}, "not a known name"),
        ({"set": {"a": 2**70}}, "does not fit any type"),
        ({"set": {"a" * 256: 1}}, "does not fit any type"),
        ({"default": {"a": object()}}, "no field-table type fits"),
        ({"default": {"a": 1}, "set": {"a": 1}}, "makes its default useless"),
        ({"remove": ["regex:("]}, "not a regular expression"),
        ({"drop": ["a"]}, "unknown field"),
    ],
)
def test_what_makes_no_sense_is_not_loaded(keys: dict[str, Any], reason: str) -> None:
    with pytest.raises((msgspec.ValidationError, ValueError), match=reason):
        edit(**keys)


@pytest.mark.parametrize(
    ("check", "keys", "reason"),
    [
        (check_properties, {"set": {"ttl": 1}}, "`ttl` is not a property"),
        (check_properties, {"set": {"headers": {}}}, "`headers` is not a property"),
        (check_properties, {"set": {"priority": 300}}, "a number of 8 bits"),
        (check_properties, {"set": {"priority": "high"}}, "a number of 8 bits"),
        (check_properties, {"at_most": {"type": 1}}, "cannot be bounded"),
        (check_properties, {"at_most": {"priority": 0.5}}, "a number of 8 bits"),
        (check_fields, {"set": {"no_wait": True}}, "not an editable field"),
        (check_fields, {"set": {"durable": "yes"}}, "true or false"),
        (check_fields, {"set": {"prefetch_count": 70_000}}, "a number of 16 bits"),
        (check_fields, {"at_most": {"durable": 1}}, "cannot be bounded"),
        (check_fields, {"remove": ["durable"]}, "always exist"),
    ],
)
def test_what_cannot_be_edited_is_not_loaded(check: Any, keys: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        check(edit(**keys))


def test_what_it_needs() -> None:
    assert (edit(set={"a": 1}).needs, edit(set={"a": 1}).is_constant) == (Stage.METHOD, True)
    assert (edit(set={"a": "{user}"}).needs, edit(set={"a": "{user}"}).is_constant) == (Stage.METHOD, True)
    assert (edit(default={"a": "{headers.b}"}).needs, edit(set={"a": "{time}"}).is_constant) == (Stage.HEADER, False)

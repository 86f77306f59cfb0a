"""Where names stand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from amqproxy.amqp091.methods import (
    BY_NAME,
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicPublish,
    BasicReturn,
    ConnectionOpen,
    ExchangeBind,
    ExchangeDeclare,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Array, Field, Item, Table
from amqproxy.rules.rewriting.name_fields import FIELDS, NameKind, renamed, renamed_properties, renamed_text
from tests.amqp091 import strategies

LETTERS = {
    NameKind.EXCHANGE: "E",
    NameKind.QUEUE: "Q",
    NameKind.ROUTING_KEY: "K",
    NameKind.CONSUMER_TAG: "T",
    NameKind.VHOST: "V",
    NameKind.USER: "U",
}


def marked(noun: NameKind, name: str) -> str:
    """The name with the letter of its noun before it, so that it shows what it was taken for."""
    return f"{LETTERS[noun]}:{name}" if name else ""


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (BasicPublish(exchange="e", routing_key="k"), {"exchange": "E:e", "routing_key": "K:k"}),
        (BasicPublish(routing_key="q"), {"routing_key": "Q:q"}),
        (BasicDeliver("t", exchange="", routing_key="q"), {"consumer_tag": "T:t", "routing_key": "Q:q"}),
        (BasicGetOk(exchange="e", routing_key="k"), {"exchange": "E:e", "routing_key": "K:k"}),
        (BasicReturn(exchange="", routing_key="q"), {"routing_key": "Q:q"}),
        (BasicConsume(queue="q", consumer_tag="t"), {"queue": "Q:q", "consumer_tag": "T:t"}),
        (BasicCancel("t"), {"consumer_tag": "T:t"}),
        (BasicGet(queue="q"), {"queue": "Q:q"}),
        (
            QueueBind(queue="q", exchange="e", routing_key="k"),
            {"queue": "Q:q", "exchange": "E:e", "routing_key": "K:k"},
        ),
        (QueueBind(queue="q", exchange="", routing_key="k"), {"queue": "Q:q", "routing_key": "K:k"}),
        (ExchangeBind(destination="d", source="s"), {"destination": "E:d", "source": "E:s"}),
        (QueueDeclareOk("q"), {"queue": "Q:q"}),
        (ConnectionOpen("v"), {"virtual_host": "V:v"}),
        (BasicAck(1), {}),
    ],
)
def test_fields(method: Method, expected: dict[str, str]) -> None:
    new = renamed(method, marked)
    old = {name: getattr(method, name) for name in method.__struct_fields__}
    assert {name: getattr(new, name) for name in method.__struct_fields__} == old | expected


def test_on_the_way_back_the_exchange_that_the_client_knows_determines_the_kind_of_key() -> None:
    def back(noun: NameKind, name: str) -> str:
        return "" if noun is NameKind.EXCHANGE else marked(noun, name)

    assert renamed(BasicDeliver(exchange="x", routing_key="k"), back, is_back=True).routing_key == "Q:k"  # type: ignore[attr-defined]
    assert renamed(BasicDeliver(exchange="x", routing_key="k"), back).routing_key == "K:k"  # type: ignore[attr-defined]


@given(strategies.methods)
def test_without_another_name_nothing_is_another(method: Any) -> None:
    assert renamed(method, lambda _, name: name) is method


def test_no_place_is_forgotten() -> None:
    """Every text of the methods that come once a connection is open is a name, or plainly none."""
    others = {"type", "reply_text", "reason", "realm", "locale"}
    for name, method in BY_NAME.items():
        if method.class_id > 10:
            texts = {
                field
                for field, letter in zip(method.__struct_fields__, method.layout.decode(), strict=True)
                if letter in "su" and not field.startswith("reserved_")
            }
            assert texts - others == {field for field, _ in FIELDS.get(name, ())}


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (
            QueueDeclare(
                queue="", arguments=Table({"x-dead-letter-exchange": "e", "x-dead-letter-routing-key": "k", "a": 1})
            ),
            {"x-dead-letter-exchange": "E:e", "x-dead-letter-routing-key": "K:k", "a": 1},
        ),
        (
            QueueDeclare(queue="", arguments=Table({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"})),
            {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "Q:q"},
        ),
        (QueueDeclare(arguments=Table({"x-dead-letter-routing-key": "k"})), {"x-dead-letter-routing-key": "k"}),
        (QueueDeclare(arguments=Table({"x-dead-letter-exchange": 5})), {"x-dead-letter-exchange": 5}),
        (ExchangeDeclare(arguments=Table({"alternate-exchange": "e"})), {"alternate-exchange": "E:e"}),
        (QueueBind(arguments=Table({"alternate-exchange": "e"})), {"alternate-exchange": "e"}),
    ],
)
def test_arguments(method: Any, expected: dict[str, Any]) -> None:
    new: Any = renamed(method, marked)
    assert dict(new.arguments) == expected
    assert [field.type for field in new.arguments.fields] == [field.type for field in method.arguments.fields]
    assert dict(getattr(renamed(method, marked, in_arguments=False), "arguments")) == dict(method.arguments)  # noqa: B009


DEATHS = Table(
    {
        "CC": ["k1", 5],
        "BCC": ["k2"],
        "x-death": [{"count": 1, "exchange": "e", "queue": "q", "routing-keys": ["k"], "reason": "expired"}, "odd"],
        "x-first-death-exchange": "e",
        "x-first-death-queue": "q",
        "x-first-death-reason": "expired",
        "x-last-death-queue": 7,
    }
)
MESSAGE = Properties(reply_to="replies", headers=DEATHS, correlation_id="c")


def test_properties() -> None:
    new = renamed_properties(MESSAGE, "e", marked)
    assert (new.reply_to, new.correlation_id) == ("Q:replies", "c")
    assert new.headers is not None
    assert dict(new.headers) == {
        "CC": ["K:k1", 5],
        "BCC": ["K:k2"],
        "x-death": [
            {"count": 1, "exchange": "E:e", "queue": "Q:q", "routing-keys": ["K:k"], "reason": "expired"},
            "odd",
        ],
        "x-first-death-exchange": "E:e",
        "x-first-death-queue": "Q:q",
        "x-first-death-reason": "expired",
        "x-last-death-queue": 7,
    }
    default = renamed_properties(MESSAGE, "", marked).headers
    assert default is not None
    assert default["CC"] == ["Q:k1", 5]


@pytest.mark.parametrize(
    ("places", "changed"),
    [
        ({"reply_to": False}, {"CC", "BCC", "x-death", "x-first-death-exchange", "x-first-death-queue"}),
        ({"copies": False}, {"reply_to", "x-death", "x-first-death-exchange", "x-first-death-queue"}),
        ({"deaths": False}, {"reply_to", "CC", "BCC"}),
        ({"reply_to": False, "copies": False, "deaths": False}, set()),
    ],
)
def test_only_the_places_that_are_followed(places: dict[str, bool], changed: set[str]) -> None:
    new = renamed_properties(MESSAGE, "e", marked, **places)
    assert new.headers is not None
    found = {name for name in DEATHS if new.headers[name] != DEATHS[name]}
    assert found | ({"reply_to"} if new.reply_to != "replies" else set()) == changed


@given(strategies.properties)
def test_without_another_name_the_properties_are_the_same(properties: Properties) -> None:
    assert renamed_properties(properties, "e", lambda _, name: name) is properties


def test_the_types_of_what_is_renamed_stay() -> None:
    headers = Table([Field("n", "B", 1), Field("CC", "A", Array([Item("S", "k"), Item("b", 2)])), Field("n", "s", 2)])
    new = renamed_properties(Properties(headers=headers), "e", marked).headers
    assert new is not None
    assert [(field.name, field.type) for field in new.fields] == [("n", "B"), ("CC", "A"), ("n", "s")]
    assert [item.type for item in new["CC"].items] == ["S", "b"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("NOT_FOUND - no exchange 'e' in vhost '/'", "NOT_FOUND - no exchange 'E:e' in vhost 'V:/'"),
        ("NOT_FOUND - no queue 'q' in vhost '/'", "NOT_FOUND - no queue 'Q:q' in vhost 'V:/'"),
        (
            "PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q' in vhost '/': received 'false'",
            "PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'Q:q' in vhost 'V:/': received 'false'",
        ),
        (
            "ACCESS_REFUSED - access to topic 'k' in exchange 'e' in vhost '/' refused for user 'u'",
            "ACCESS_REFUSED - access to topic 'K:k' in exchange 'E:e' in vhost 'V:/' refused for user 'U:u'",
        ),
        (
            "ACCESS_REFUSED - queue name 'amq.x' contains reserved prefix 'amq.*'",
            "ACCESS_REFUSED - queue name 'Q:amq.x' contains reserved prefix 'amq.*'",
        ),
        ("NOT_ALLOWED - attempt to reuse consumer tag 't'", "NOT_ALLOWED - attempt to reuse consumer tag 'T:t'"),
        ("NOT_ALLOWED - vhost nope not found", "NOT_ALLOWED - vhost V:nope not found"),
        ("PRECONDITION_FAILED - unknown delivery tag 5", "PRECONDITION_FAILED - unknown delivery tag 5"),
        ("CHANNEL_ERROR - exchange 'half", "CHANNEL_ERROR - exchange 'half"),
        ("", ""),
        ("no exchange ''", "no exchange ''"),
    ],
)  # fmt: skip
def test_texts(text: str, expected: str) -> None:
    assert renamed_text(text, marked) == expected


def test_a_text_that_grows_is_cut() -> None:
    text = renamed_text("no queue 'q' in vhost '/'", lambda _, name: name * 250)
    assert len(text) == 255
    assert text.endswith("...")

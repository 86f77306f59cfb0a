"""Texts with places."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from amqproxy.amqp091.methods import BasicPublish, QueueDeclare
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Array, Table
from amqproxy.rules.matching.templates import Template, as_text
from amqproxy.rules.verdict import Stage
from tests.rules.scene import from_client

MESSAGE = from_client(
    BasicPublish(exchange="e", routing_key="a.b"),
    Properties(priority=3, headers=Table({"n": 5, "b.c": "dotted", "t": {"u": [1, {"v": "deep"}]}, "s": "text"})),
    b'{"id": 9, "items": [{"price": 1.5}]}',
)


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("", ""),
        ("plain", "plain"),
        ("{{}} {{user}}", "{} {user}"),
        ("{user}@{vhost}", "guest@/"),
        ("{method} {exchange}/{routing_key}", "basic.publish e/a.b"),
        ("{client.address}:{client.port}", "10.0.0.7:4711"),
        ("{client.properties.product}", "pika"),
        ("{client.properties.none}", ""),
        ("{properties.priority}{properties.type}", "3"),
        ("{headers.n} {headers.b.c} {headers.t.u.1.v} {headers.t.u.7} {headers.s.x}", "5 dotted deep  "),
        ("{json.id} {json.items.0.price}", "9 1.5"),
        ("{headers.t}", '{"u":[1,{"v":"deep"}]}'),
        ("{queue}|{consumer_tag}", "|"),
        ("{size}", "36"),
        ("{{{user}}}", "{guest}"),
    ],
)
def test_places_are_filled(text: str, filled: str) -> None:
    assert Template(text).fill(MESSAGE) == filled


def test_what_is_given_needs_no_command() -> None:
    template = Template("by {rule}", {"rule": "r"})
    assert (template.pieces, template.needs, template.is_of_client) == (("by r",), Stage.METHOD, True)


def test_a_place_alone_keeps_its_value() -> None:
    assert Template("{headers.n}").value(MESSAGE) == 5
    assert Template("{headers.none}").value(MESSAGE) is None
    assert Template("{headers.n}!").value(MESSAGE) == "5!"
    assert Template("").value(MESSAGE) == ""


def test_a_command_without_content_has_none() -> None:
    assert Template("{body}{size}{headers.n}{queue}").fill(from_client(QueueDeclare(queue="q"))) == "q"


@pytest.mark.parametrize(
    "text", ["{", "}", "{user", "user}", "{}", "{nobody}", "{user.name}", "{client}", "{ user }", "{{}"]
)
def test_a_faulty_one_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"unmatched brace|not a known name"):
        Template(text)


@pytest.mark.parametrize(
    ("text", "needs", "is_constant", "is_of_client"),
    [
        ("x", Stage.METHOD, True, True),
        ("{user} {client.address}", Stage.METHOD, True, True),
        ("{routing_key}", Stage.METHOD, True, False),
        ("{channel.number}", Stage.METHOD, False, False),
        ("{time}", Stage.METHOD, False, False),
        ("{user} {headers.a}", Stage.HEADER, False, False),
        ("{size} {json.a}", Stage.BODY, False, False),
    ],
)
def test_what_it_depends_on(text: str, needs: Stage, is_constant: bool, is_of_client: bool) -> None:
    template = Template(text)
    assert (template.needs, template.is_constant, template.is_of_client) == (needs, is_constant, is_of_client)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "true"),
        (False, "false"),
        (b"caf\xc3\xa9", "café"),
        (b"\xff", "\udcff"),
        (Decimal("1.10"), "1.10"),
        (2.0, "2.0"),
        (Array([1, "a", None]), '[1,"a",null]'),
        (Table({"a": {"b": True}}), '{"a":{"b":true}}'),
    ],
)
def test_values_as_text(value: Any, text: str) -> None:
    assert as_text(value) == text

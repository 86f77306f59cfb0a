"""Changes of messages, and what they say they have changed."""

from __future__ import annotations

import pytest
import trio

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BasicGetOk
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Field, Table
from amqproxy.workbench.edit import MAX_TEXT, Edit, changes_of
from amqproxy.workbench.held_message import HeldMessage
from amqproxy.workbench.message_line import LineError


def message(properties: Properties, body: bytes = b"") -> HeldMessage:
    return HeldMessage(Command(1, BasicGetOk(1, routing_key="k"), properties, body), 0)


def edited(edit: Edit, given: HeldMessage) -> tuple[Properties, bytes]:
    return trio.run(edit.of, given)


def test_only_what_is_named_changes() -> None:
    headers = Table([Field("a", "s", 1), Field("b", "I", 2)])
    given = message(Properties(headers=headers, type="t", priority=3), b"body")
    properties, body = edited(Edit(properties={"type": None, "app_id": "x"}, headers={"b": 5, "c": [1]}), given)
    assert (properties.type, properties.app_id, properties.priority, body) == (None, "x", 3, b"body")
    assert properties.headers is not None
    assert properties.headers.fields[0] == Field("a", "s", 1)
    assert {name: properties.headers[name] for name in ("b", "c")} == {"b": 5, "c": [1]}


def test_headers_can_be_removed() -> None:
    properties, _ = edited(Edit(without=("a",)), message(Properties(headers=Table({"a": 1}))))
    assert properties.headers is None


@pytest.mark.parametrize(
    "edit",
    [Edit(properties={"colour": "red"}), Edit(properties={"priority": 300}), Edit(properties={"type": "x" * 256})],
    ids=["unknown", "out of range", "too long"],
)
def test_a_wrong_property_is_refused(edit: Edit) -> None:
    with pytest.raises(LineError):
        edit.check()


def test_changes_name_each_field() -> None:
    before = message(Properties(headers=Table({"a": 1, "b": 2}), type="t"), b"one\ntwo\n")
    after = Properties(headers=Table({"a": 1, "c": 3}), type="u")
    assert changes_of(before, after, b"one\n2\n") == {
        "properties.type": {"from": "t", "to": "u"},
        "headers.b": {"from": 2, "to": None},
        "headers.c": {"from": None, "to": 3},
        "body": {"diff": "--- before\n+++ after\n@@ -1,2 +1,2 @@\n one\n-two\n+2"},
    }


@pytest.mark.parametrize("body", [b"\xff", b"x" * (MAX_TEXT + 1)], ids=["bytes", "large"])
def test_bodies_that_no_line_shows_are_digested(body: bytes) -> None:
    changes = changes_of(message(Properties(), body), Properties(), b"")
    assert changes["body"]["from"]["size"] == len(body)
    assert changes["body"]["to"]["size"] == 0

"""What differs is named, and what every run has its own of is not."""

from __future__ import annotations

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BasicDeliver, BasicGetEmpty, BasicGetOk, ChannelClose
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Array, Item, Table
from amqproxy.comparison.difference import Change
from amqproxy.replay.answer_changes import answer_changes
from amqproxy.replay.content_key import content_key


def delivery(tag: int = 1, body: bytes = b"hello", time: int = 0, **properties: object) -> Command:
    death = Table({"queue": "q", "count": 1, "time": time})
    headers = Table({"x-death": Array([Item("F", death)])})
    method = BasicDeliver("c", tag, exchange="e", routing_key="k")
    return Command(1, method, Properties(headers=headers, **properties), body)  # type: ignore[arg-type]


def test_tags_and_times_of_the_run_are_not_compared() -> None:
    assert answer_changes(delivery(1, time=5), delivery(2, time=6)) == []
    assert content_key(delivery(1, time=5)) == content_key(delivery(2, time=6))


def test_each_field_that_differs_is_named() -> None:
    found = answer_changes(delivery(body=b"hello"), delivery(body=b"help!", priority=3))
    assert found == [
        Change(field="properties.priority", after=3),
        Change(field="body", before="lo", after="p!", at=3),
    ]
    assert content_key(delivery(body=b"hello")) != content_key(delivery(body=b"help!"))


def test_another_method_is_one_difference() -> None:
    assert answer_changes(Command(1, BasicGetOk(1), Properties(), b""), Command(1, BasicGetEmpty())) == [
        Change(field="method", before="basic.get-ok", after="basic.get-empty")
    ]


def test_numbers_within_reply_texts_are_those_of_the_run() -> None:
    one, other = (Command(1, ChannelClose(406, f"unknown delivery tag {tag}", 60, 80)) for tag in (1, 9))
    assert answer_changes(one, other) == []
    gone = Command(1, ChannelClose(404, "unknown delivery tag 1", 60, 80))
    assert answer_changes(one, gone) == [Change(field="reply_code", before=406, after=404)]


def test_a_message_id_is_all_that_makes_a_message_the_same() -> None:
    assert content_key(delivery(message_id="m", body=b"1")) == content_key(delivery(message_id="m", body=b"2"))

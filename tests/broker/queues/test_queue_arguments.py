"""What queues and consumers may be declared with; the texts are RabbitMQ's own, asked one by one."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from amqproxy.amqp091.errors import PreconditionFailed
from amqproxy.amqp091.wire import Field, Item, Table
from amqproxy.broker.queues.queue_arguments import (
    SEGMENT_SIZE,
    QueueSettings,
    check_consume,
    check_declare,
    check_same,
    interval,
    queue_type,
)

Q = "queue 'q' in vhost 'v'"
LONG = Item("l", 2**40)


def declared(type_: str = "", *, flags: str = "durable", is_named: bool = True, **arguments: Any) -> str:
    """What is wrong with it; nothing if nothing is."""
    named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    table = Table({"x-queue-type": type_, **named} if type_ else named)
    words = {word: word in flags.split() for word in ("durable", "exclusive", "auto_delete")}
    try:
        check_declare(Q, table, **words, is_named=is_named)
    except PreconditionFailed as error:
        return error.text
    return ""


def refused(text: str) -> AbstractContextManager[object]:
    """The block ends in a 406 whose text ends so; in none, where there is no text."""
    return pytest.raises(PreconditionFailed, match=re.escape(text) + "$") if text else nullcontext()


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("expires", 0, "{value_zero,0}"),
        ("expires", -1, "{value_negative,-1}"),
        ("expires", "1", '"expected integer, got longstr"'),
        ("expires", LONG, "{value_too_large,1099511627776}"),
        ("message_ttl", -1, "{value_negative,-1}"),
        ("message_ttl", 1.5, '"expected integer, got double"'),
        ("message_ttl", True, '"expected integer, got bool"'),
        ("message_ttl", None, '"expected integer, got void"'),
        ("message_ttl", Item("T", 5), '"expected integer, got timestamp"'),
        ("message_ttl", Item("l", 315_360_000_001), "{value_too_large,315360000001}"),
        ("max_length", -1, "{value_negative,-1}"),
        ("max_length", Item("F", {}), '"expected integer, got table"'),
        ("max_length_bytes", "1", '"expected integer, got longstr"'),
        ("overflow", "spill", "invalid_overflow"),
        ("overflow", 1, "{unacceptable_type,signedint}"),
        ("overflow", Item("x", b"drop-head"), "{unacceptable_type,binary}"),
        ("dead_letter_routing_key", "k", "routing_key_but_no_dlx_defined"),
        ("dead_letter_routing_key", 1, "{unacceptable_type,signedint}"),
        ("max_priority", -1, "{value_negative,-1}"),
        ("max_priority", 256, "{max_value_exceeded,256}"),
        ("single_active_consumer", "true", "{unacceptable_type,longstr}"),
        ("queue_mode", "hurried", "\"unsupported queue mode 'hurried'\""),
        ("queue_mode", 1, "{unacceptable_type,signedint}"),
        ("queue_type", "heap", "\"unsupported queue type 'heap'\""),
        ("queue_type", 1, "{unacceptable_type,signedint}"),
        ("queue_version", 3, "\"unsupported queue version '3'\""),
        ("queue_version", -3, "{value_negative,-3}"),
    ],
)
def test_classic_faults(name: str, value: Any, fault: str) -> None:
    assert declared(**{name: value}) == f"invalid arg 'x-{name.replace('_', '-')}' for {Q}: {fault}"


@pytest.mark.parametrize(
    ("type_", "name", "value", "fault"),
    [
        ("quorum", "dead_letter_strategy", "perhaps", "invalid_dlx_strategy"),
        ("quorum", "queue_leader_locator", "bogus", "invalid_queue_locator_arg"),
        ("quorum", "quorum_initial_group_size", 0, "{value_zero,0}"),
        ("stream", "max_age", 5, "{unacceptable_type,signedint}"),
        ("stream", "max_age", "0s", "invalid_max_age"),
        ("stream", "max_age", "5x", "invalid_max_age"),
        ("stream", "max_age", "an hour", "invalid_max_age"),
        ("stream", "stream_max_segment_size_bytes", -1, "{value_negative,-1}"),
    ],
)
def test_faults_of_other_types(type_: str, name: str, value: Any, fault: str) -> None:
    assert declared(type_, **{name: value}) == f"invalid arg 'x-{name.replace('_', '-')}' for {Q}: {fault}"


@pytest.mark.parametrize(
    ("type_", "name", "value"),
    [
        ("classic", "delivery_limit", 1),
        ("classic", "max_age", "1h"),
        ("classic", "queue_leader_locator", "client-local"),
        ("quorum", "max_priority", 5),
        ("quorum", "queue_mode", "lazy"),
        ("quorum", "max_age", "1h"),
        ("stream", "message_ttl", 1),
        ("stream", "max_length", 1),
        ("stream", "expires", 1),
        ("stream", "single_active_consumer", True),
    ],
)
def test_arguments_of_other_types(type_: str, name: str, value: Any) -> None:
    expected = f"invalid arg 'x-{name.replace('_', '-')}' for {Q} of queue type rabbit_{type_}_queue"
    assert declared(type_, **{name: value}) == expected


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        ({"max_length": -1, "expires": 0}, "'x-expires'"),
        ({"max_age": 1, "delivery_limit": 1}, "'x-max-age'"),
        ({"delivery_limit": 1, "max_age": 1}, "'x-delivery-limit'"),
        ({"delivery_limit": 1, "max_length": -1}, "'x-max-length'"),
        ({"queue_type": "heap", "expires": 0}, "'x-queue-type'"),
    ],
)
def test_which_of_two_faults_is_reported(arguments: dict[str, Any], reported: str) -> None:
    assert declared(**arguments).startswith(f"invalid arg {reported} for ")


@pytest.mark.parametrize(
    ("type_", "flags", "name"),
    [
        ("quorum", "", "non-durable"),
        ("quorum", "durable exclusive", "exclusive-owner"),
        ("quorum", "durable auto_delete", "auto-delete"),
        ("stream", "", "non-durable"),
        ("stream", "exclusive auto_delete", "auto-delete"),
        ("stream", "exclusive", "exclusive-owner"),
    ],
)
def test_flags(type_: str, flags: str, name: str) -> None:
    assert declared(type_, flags=flags) == f"invalid property '{name}' for {Q}"


def test_other_refusals() -> None:
    assert declared(dead_letter_exchange=1) == f"invalid type 'signedint' for arg 'x-dead-letter-exchange' in {Q}"
    for type_ in ("quorum", "stream"):
        text = f"Cannot declare a server-named queue for type rabbit_{type_}_queue"
        assert declared(type_, is_named=False) == text
    too_large = declared("stream", stream_max_segment_size_bytes=Item("l", 3_000_000_001))
    assert too_large == "Exceeded max value for x-stream-max-segment-size-bytes"


@pytest.mark.parametrize(
    ("type_", "arguments"),
    [
        ("", {}),
        ("classic", {"message_ttl": 0, "expires": 1, "max_length": 0, "max_priority": 255, "queue_version": 2}),
        ("", {"queue_mode": "lazy", "single_active_consumer": False, "overflow": "reject-publish-dlx"}),
        ("", {"message_ttl": Item("l", 315_360_000_000), "mine": [1, {"else": None}]}),
        ("", {"dead_letter_exchange": "", "dead_letter_routing_key": "k"}),
        ("quorum", {"delivery_limit": -1, "overflow": "reject-publish-dlx", "message_ttl": 5}),
        ("quorum", {"delivery_limit": "many", "dead_letter_strategy": "at-least-once"}),
        ("stream", {"max_age": "7D", "max_length_bytes": 1, "stream_max_segment_size_bytes": Item("l", 3 * 10**9)}),
    ],
)
def test_what_is_taken(type_: str, arguments: dict[str, Any]) -> None:
    assert declared(type_, **arguments) == ""


def test_the_first_of_twins_counts() -> None:
    table = Table([Field("x-max-length", "I", 5), Field("x-max-length", "I", -5)])
    check_declare(Q, table, durable=True, exclusive=False, auto_delete=False)
    assert QueueSettings.of(table).max_length == 5


# --- declared again


@pytest.mark.parametrize(
    ("current", "received", "text"),
    [
        ({}, {}, ""),
        ({}, {"mine": 1}, ""),
        ({"x-max-length": 5}, {"x-max-length": Item("l", 5)}, ""),
        ({}, {"x-queue-type": "classic"}, ""),
        ({"x-queue-type": "classic"}, {}, ""),
        ({}, {"x-queue-type": "quorum"}, "received the value 'quorum' of type 'longstr' but current is none"),
        ({"x-max-length": 5}, {"x-max-length": 6}, "received '6' but current is '5'"),
        ({"x-max-length": 5}, {}, "received none but current is the value '5' of type 'signedint'"),
        ({"x-max-length": 5}, {"x-max-length": "5"}, "received '5' but current is '5'"),
        (
            {},
            {"x-max-length": 1, "x-message-ttl": 2},
            "'x-message-ttl' for queue 'q' in vhost 'v': "
            "received the value '2' of type 'signedint' but current is none",
        ),
    ],
)
def test_declared_again(current: dict[str, Any], received: dict[str, Any], text: str) -> None:
    with refused(text):
        check_same("q", "v", queue_type(Table(current)), Table(received), Table(current))


# --- consumers


@pytest.mark.parametrize(
    ("type_", "arguments", "text"),
    [
        ("classic", {"x-priority": 5, "anything": 1}, ""),
        ("classic", {"x-priority": "high"}, f"invalid arg 'x-priority' for {Q}: \"expected integer, got longstr\""),
        (
            "classic",
            {"x-cancel-on-ha-failover": "yes"},
            f"invalid arg 'x-cancel-on-ha-failover' for {Q}: {{unacceptable_type,longstr}}",
        ),
        (
            "quorum",
            {"x-cancel-on-ha-failover": True},
            f"invalid arg 'x-cancel-on-ha-failover' for {Q} of queue type rabbit_quorum_queue",
        ),
        (
            "classic",
            {"x-stream-offset": 1},
            f"invalid arg 'x-stream-offset' for {Q} of queue type rabbit_classic_queue",
        ),
        ("stream", {"x-priority": 1}, f"invalid arg 'x-priority' for {Q} of queue type rabbit_stream_queue"),
        *(("stream", {"x-stream-offset": offset}, "") for offset in ("first", "last", "next", 7, Item("T", 7), "1h")),
        (
            "stream",
            {"x-stream-offset": "5x"},
            f"invalid arg 'x-stream-offset' for {Q}: {{invalid_stream_offset_arg,{{longstr,<<\"5x\">>}}}}",
        ),
        ("stream", {"x-stream-offset": "middle"}, f"invalid arg 'x-stream-offset' for {Q}: invalid_offset"),
        ("stream", {"x-stream-offset": True}, f"invalid arg 'x-stream-offset' for {Q}: {{unacceptable_type,bool}}"),
    ],
    ids=str,
)
def test_consume(type_: str, arguments: dict[str, Any], text: str) -> None:
    with refused(text):
        check_consume(Q, type_, Table(arguments))


# --- what they come to


def test_settings() -> None:
    assert QueueSettings.of({}) == QueueSettings(overflow="drop-head", segment_size=SEGMENT_SIZE)
    assert QueueSettings.of(
        {
            "x-message-ttl": 1500,
            "x-expires": 2000,
            "x-max-length": 3,
            "x-max-length-bytes": 4,
            "x-overflow": "reject-publish",
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "k",
            "x-delivery-limit": 5,
            "x-max-age": "2m",
            "x-stream-max-segment-size-bytes": 6,
        }
    ) == QueueSettings(1.5, 2.0, 3, 4, "reject-publish", "", "k", 5, 120, 6)
    assert QueueSettings.of({"x-delivery-limit": -1}).delivery_limit is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1Y", 31_536_000), ("2M", 5_184_000), ("7D", 604_800), ("1h", 3600), ("5m", 300), ("9s", 9)]
    + [(wrong, None) for wrong in ("0s", "5x", "h", "", "-1s", "1.5h", "5 m", "5ms")],
)
def test_interval(text: str, seconds: int | None) -> None:
    assert interval(text) == seconds

"""Every misuse, and what the broker answers to it: scope, reply code, the method at fault, reply text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amqproxy.amqp091.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicReject,
    ChannelFlow,
    ChannelOpen,
    ConfirmSelect,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
    TxCommit,
    TxRollback,
    TxSelect,
)
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.amqp091.wire import Field, Item, Table
from tests.behaviours.client import Channel, Closed, frame, until
from tests.behaviours.scene import Scene

pytestmark = pytest.mark.real

LOCKED = (
    "RESOURCE_LOCKED - cannot obtain exclusive access to locked {queue}. It could be originally declared on another "
    "connection or the exclusive property value does not match that of the original declaration."
)

Misuse = Callable[[Scene, Channel], object]


def rows(*table: tuple[Any, ...]) -> pytest.MarkDecorator:
    """A table whose first column names the row and whose last is the broker's answer."""
    cases = [pytest.param(*row[1:], id=row[0]) for row in table]
    names = ["misuse", "expected"] if len(table[0]) == 3 else ["first", "then", "expected"]
    return pytest.mark.parametrize(names, cases)


# ----------------------------------------------------------------------------------------- declared otherwise


@rows(
    ("durable", {}, {"durable": True}, "'durable' for {queue}: received 'true' but current is 'false'"),
    ("not durable", {"durable": True}, {}, "'durable' for {queue}: received 'false' but current is 'true'"),
    ("auto-delete", {}, {"auto_delete": True}, "'auto_delete' for {queue}: received 'true' but current is 'false'"),
    ("not auto-delete", {"auto_delete": True}, {}, "'auto_delete' for {queue}: received 'false' but current is 'true'"),
    (
        "durable and auto-delete",
        {},
        {"durable": True, "auto_delete": True},
        "'durable' for {queue}: received 'true' but current is 'false'",
    ),
)
def test_queue_declared_otherwise(scene: Scene, first: dict[str, Any], then: dict[str, Any], expected: str) -> None:
    scene.ch.declare(scene.q, **first)
    scene.ch.send(_declare(scene.q, then))
    scene.ch.expect_close(scene.fill("channel 406 queue.declare PRECONDITION_FAILED - inequivalent arg " + expected))


@rows(
    (
        "x-message-ttl added",
        {},
        {"x-message-ttl": 1000},
        "'x-message-ttl' for {queue}: received the value '1000' of type 'signedint' but current is none",
    ),
    (
        "x-message-ttl gone",
        {"x-message-ttl": 1000},
        {},
        "'x-message-ttl' for {queue}: received none but current is the value '1000' of type 'signedint'",
    ),
    (
        "x-message-ttl",
        {"x-message-ttl": 1000},
        {"x-message-ttl": 2000},
        "'x-message-ttl' for {queue}: received '2000' but current is '1000'",
    ),
    (
        "x-expires",
        {"x-expires": 100000},
        {"x-expires": 200000},
        "'x-expires' for {queue}: received '200000' but current is '100000'",
    ),
    (
        "x-max-length",
        {"x-max-length": 1},
        {"x-max-length": 2},
        "'x-max-length' for {queue}: received '2' but current is '1'",
    ),
    (
        "x-max-length-bytes",
        {"x-max-length-bytes": 1},
        {"x-max-length-bytes": 2},
        "'x-max-length-bytes' for {queue}: received '2' but current is '1'",
    ),
    (
        "x-overflow",
        {"x-overflow": "drop-head"},
        {"x-overflow": "reject-publish"},
        "'x-overflow' for {queue}: received 'reject-publish' but current is 'drop-head'",
    ),
    (
        "x-dead-letter-exchange",
        {"x-dead-letter-exchange": "a"},
        {"x-dead-letter-exchange": "b"},
        "'x-dead-letter-exchange' for {queue}: received 'b' but current is 'a'",
    ),
    (
        "x-dead-letter-routing-key",
        {"x-dead-letter-exchange": "a", "x-dead-letter-routing-key": "a"},
        {"x-dead-letter-exchange": "a", "x-dead-letter-routing-key": "b"},
        "'x-dead-letter-routing-key' for {queue}: received 'b' but current is 'a'",
    ),
    (
        "x-max-priority",
        {"x-max-priority": 5},
        {"x-max-priority": 6},
        "'x-max-priority' for {queue}: received '6' but current is '5'",
    ),
    (
        "x-single-active-consumer",
        {},
        {"x-single-active-consumer": True},
        "'x-single-active-consumer' for {queue}: received the value 'true' of type 'bool' but current is none",
    ),
    (
        "x-queue-mode",
        {"x-queue-mode": "default"},
        {"x-queue-mode": "lazy"},
        "'x-queue-mode' for {queue}: received 'lazy' but current is 'default'",
    ),
    (
        "x-queue-type",
        {},
        {"x-queue-type": "quorum"},
        "'x-queue-type' for {queue}: received {quorum}",
    ),
    (
        "two arguments at once",
        {},
        {"x-max-length": 1, "x-message-ttl": 2},
        "'x-message-ttl' for {queue}: received the value '2' of type 'signedint' but current is none",
    ),
    (
        "another wire type",
        {"x-message-ttl": 1000},
        {"x-message-ttl": "1000"},
        "'x-message-ttl' for {queue}: received '1000' but current is '1000'",
    ),
)
def test_queue_declared_with_other_arguments(
    scene: Scene, first: dict[str, Any], then: dict[str, Any], expected: str
) -> None:
    scene.ch.declare(scene.q, durable=True, arguments=first)
    scene.ch.send(_declare(scene.q, {"durable": True, "arguments": then}))
    scene.ch.expect_close(scene.fill("channel 406 queue.declare PRECONDITION_FAILED - inequivalent arg " + expected))


@rows(
    ("exclusive", {}, {"exclusive": True}, LOCKED),
    ("not exclusive", {"exclusive": True}, {}, LOCKED),
)
def test_queue_declared_otherwise_exclusive(
    scene: Scene, first: dict[str, Any], then: dict[str, Any], expected: str
) -> None:
    scene.ch.declare(scene.q, **first)
    scene.ch.send(_declare(scene.q, then))
    scene.ch.expect_close(scene.fill("channel 405 queue.declare " + expected))


@rows(
    ("type", {}, {"type": "fanout"}, "'type' for {exchange}: received 'fanout' but current is 'direct'"),
    ("durable", {}, {"durable": True}, "'durable' for {exchange}: received 'true' but current is 'false'"),
    ("auto-delete", {}, {"auto_delete": True}, "'auto_delete' for {exchange}: received 'true' but current is 'false'"),
    ("internal", {}, {"internal": True}, "'internal' for {exchange}: received 'true' but current is 'false'"),
    (
        "type and durable",
        {},
        {"type": "fanout", "durable": True},
        "'type' for {exchange}: received 'fanout' but current is 'direct'",
    ),
    (
        "alternate-exchange added",
        {},
        {"arguments": {"alternate-exchange": "a"}},
        "'alternate-exchange' for {exchange}: received the value 'a' of type 'longstr' but current is none",
    ),
    (
        "alternate-exchange gone",
        {"arguments": {"alternate-exchange": "a"}},
        {},
        "'alternate-exchange' for {exchange}: received none but current is the value 'a' of type 'longstr'",
    ),
    (
        "alternate-exchange",
        {"arguments": {"alternate-exchange": "a"}},
        {"arguments": {"alternate-exchange": "b"}},
        "'alternate-exchange' for {exchange}: received 'b' but current is 'a'",
    ),
)
def test_exchange_declared_otherwise(scene: Scene, first: dict[str, Any], then: dict[str, Any], expected: str) -> None:
    scene.ch.call(_exchange(scene.x, first))
    scene.ch.send(_exchange(scene.x, then))
    scene.ch.expect_close(scene.fill("channel 406 exchange.declare PRECONDITION_FAILED - inequivalent arg " + expected))


def _declare(queue: str, fields: dict[str, Any]) -> QueueDeclare:
    return QueueDeclare(queue=queue, **{**fields, "arguments": Table(fields.get("arguments", {}))})


def _exchange(exchange: str, fields: dict[str, Any]) -> ExchangeDeclare:
    return ExchangeDeclare(exchange=exchange, **{**fields, "arguments": Table(fields.get("arguments", {}))})


# ------------------------------------------------------------------------------------- arguments that are wrong

LONG = Item("l", 2**40)


def arguments(*table: tuple[dict[str, Any], str]) -> pytest.MarkDecorator:
    """Arguments, and why they are refused."""
    ids = [", ".join(f"{name}={value}" for name, value in row[0].items()) for row in table]
    return pytest.mark.parametrize(("misuse", "expected"), table, ids=ids)


@arguments(
    ({"x-message-ttl": -1}, "invalid arg 'x-message-ttl' for {queue}: {value_negative,-1}"),
    ({"x-message-ttl": "1000"}, "invalid arg 'x-message-ttl' for {queue}: \"expected integer, got longstr\""),
    ({"x-message-ttl": 1.5}, "invalid arg 'x-message-ttl' for {queue}: \"expected integer, got double\""),
    ({"x-message-ttl": LONG}, "invalid arg 'x-message-ttl' for {queue}: {value_too_large,1099511627776}"),
    ({"x-message-ttl": True}, "invalid arg 'x-message-ttl' for {queue}: \"expected integer, got bool\""),
    ({"x-expires": 0}, "invalid arg 'x-expires' for {queue}: {value_zero,0}"),
    ({"x-expires": -1}, "invalid arg 'x-expires' for {queue}: {value_negative,-1}"),
    ({"x-expires": "1"}, "invalid arg 'x-expires' for {queue}: \"expected integer, got longstr\""),
    ({"x-expires": LONG}, "invalid arg 'x-expires' for {queue}: {value_too_large,1099511627776}"),
    ({"x-max-length": -1}, "invalid arg 'x-max-length' for {queue}: {value_negative,-1}"),
    ({"x-max-length": "1"}, "invalid arg 'x-max-length' for {queue}: \"expected integer, got longstr\""),
    ({"x-max-length-bytes": -1}, "invalid arg 'x-max-length-bytes' for {queue}: {value_negative,-1}"),
    ({"x-max-length-bytes": "1"}, "invalid arg 'x-max-length-bytes' for {queue}: \"expected integer, got longstr\""),
    ({"x-overflow": "spill"}, "invalid arg 'x-overflow' for {queue}: invalid_overflow"),
    ({"x-overflow": 1}, "invalid arg 'x-overflow' for {queue}: {unacceptable_type,signedint}"),
    ({"x-dead-letter-exchange": 1}, "invalid type 'signedint' for arg 'x-dead-letter-exchange' in {queue}"),
    (
        {"x-dead-letter-routing-key": "k"},
        "invalid arg 'x-dead-letter-routing-key' for {queue}: routing_key_but_no_dlx_defined",
    ),
    (
        {"x-dead-letter-exchange": "a", "x-dead-letter-routing-key": 1},
        "invalid arg 'x-dead-letter-routing-key' for {queue}: {unacceptable_type,signedint}",
    ),
    ({"x-max-priority": -1}, "invalid arg 'x-max-priority' for {queue}: {value_negative,-1}"),
    ({"x-max-priority": 256}, "invalid arg 'x-max-priority' for {queue}: {max_value_exceeded,256}"),
    ({"x-max-priority": "5"}, "invalid arg 'x-max-priority' for {queue}: \"expected integer, got longstr\""),
    (
        {"x-single-active-consumer": "true"},
        "invalid arg 'x-single-active-consumer' for {queue}: {unacceptable_type,longstr}",
    ),
    (
        {"x-single-active-consumer": 1},
        "invalid arg 'x-single-active-consumer' for {queue}: {unacceptable_type,signedint}",
    ),
    ({"x-queue-mode": "hurried"}, "invalid arg 'x-queue-mode' for {queue}: \"unsupported queue mode 'hurried'\""),
    ({"x-queue-mode": 1}, "invalid arg 'x-queue-mode' for {queue}: {unacceptable_type,signedint}"),
    ({"x-queue-type": "heap"}, "invalid arg 'x-queue-type' for {queue}: \"unsupported queue type 'heap'\""),
    ({"x-queue-type": 1}, "invalid arg 'x-queue-type' for {queue}: {unacceptable_type,signedint}"),
    ({"x-queue-version": 3}, "invalid arg 'x-queue-version' for {queue}: \"unsupported queue version '3'\""),
    ({"x-delivery-limit": 5}, "invalid arg 'x-delivery-limit' for {queue} of queue type rabbit_classic_queue"),
    ({"x-max-age": "1h"}, "invalid arg 'x-max-age' for {queue} of queue type rabbit_classic_queue"),
)
def test_classic_queue_arguments(scene: Scene, misuse: dict[str, Any], expected: str) -> None:
    if "x-queue-mode" in misuse and scene.profile.ignores_queue_mode:
        scene.ch.declare(scene.q, durable=True, arguments=misuse)
        scene.ch.call(QueueDelete(queue=scene.q))
        return
    _refused(scene, {"durable": True, "arguments": misuse}, expected)


@arguments(
    ({"x-max-priority": 5}, "invalid arg 'x-max-priority' for {queue} of queue type rabbit_quorum_queue"),
    ({"x-queue-mode": "lazy"}, "invalid arg 'x-queue-mode' for {queue} of queue type rabbit_quorum_queue"),
    ({"x-dead-letter-strategy": "perhaps"}, "invalid arg 'x-dead-letter-strategy' for {queue}: invalid_dlx_strategy"),
)
def test_quorum_queue_arguments(scene: Scene, misuse: dict[str, Any], expected: str) -> None:
    _refused(scene, {"durable": True, "arguments": {"x-queue-type": "quorum", **misuse}}, expected)


@arguments(
    ({"x-max-age": 5}, "invalid arg 'x-max-age' for {queue}: {unacceptable_type,signedint}"),
    (
        {"x-stream-max-segment-size-bytes": -1},
        "invalid arg 'x-stream-max-segment-size-bytes' for {queue}: {value_negative,-1}",
    ),
    ({"x-message-ttl": 1}, "invalid arg 'x-message-ttl' for {queue} of queue type rabbit_stream_queue"),
    ({"x-max-length": 1}, "invalid arg 'x-max-length' for {queue} of queue type rabbit_stream_queue"),
)
def test_stream_queue_arguments(scene: Scene, misuse: dict[str, Any], expected: str) -> None:
    _refused(scene, {"durable": True, "arguments": {"x-queue-type": "stream", **misuse}}, expected)


@rows(
    ("quorum: not durable", "quorum", {}, "invalid property 'non-durable' for {queue}"),
    (
        "quorum: exclusive",
        "quorum",
        {"durable": True, "exclusive": True},
        "invalid property 'exclusive-owner' for {queue}",
    ),
    (
        "quorum: auto-delete",
        "quorum",
        {"durable": True, "auto_delete": True},
        "invalid property 'auto-delete' for {queue}",
    ),
    ("stream: not durable", "stream", {}, "invalid property 'non-durable' for {queue}"),
    (
        "stream: exclusive",
        "stream",
        {"durable": True, "exclusive": True},
        "invalid property 'exclusive-owner' for {queue}",
    ),
    (
        "stream: auto-delete",
        "stream",
        {"durable": True, "auto_delete": True},
        "invalid property 'auto-delete' for {queue}",
    ),
)
def test_queue_properties(scene: Scene, first: str, then: dict[str, bool], expected: str) -> None:
    _refused(scene, {**then, "arguments": {"x-queue-type": first}}, expected)


def _refused(scene: Scene, fields: dict[str, Any], expected: str) -> None:
    scene.ch.send(_declare(scene.q, fields))
    scene.ch.expect_close(scene.fill("channel 406 queue.declare PRECONDITION_FAILED - " + expected))


@rows(
    (
        "alternate-exchange: number",
        {"arguments": {"alternate-exchange": 1}},
        (
            "channel 406 exchange.declare PRECONDITION_FAILED - invalid type 'signedint' for arg "
            "'alternate-exchange' in {exchange}"
        ),
    ),
    (
        "unknown type",
        {"type": "carousel"},
        "{type_fault} - unknown exchange type 'carousel'",
    ),
    ("empty type", {"type": ""}, "{type_fault} - invalid exchange type ''"),
)
def test_exchange_arguments(scene: Scene, misuse: dict[str, Any], expected: str) -> None:
    scene.ch.send(_exchange(scene.x, misuse))
    scene.ch.expect_close(scene.fill(expected))


@rows(
    (
        "x-priority: text",
        {"x-priority": "high"},
        (
            "channel 406 basic.consume PRECONDITION_FAILED - invalid arg 'x-priority' for {queue}: "
            '"expected integer, got longstr"'
        ),
    ),
    (
        "x-cancel-on-ha-failover: text",
        {"x-cancel-on-ha-failover": "yes"},
        (
            "channel 406 basic.consume PRECONDITION_FAILED - invalid arg 'x-cancel-on-ha-failover' for "
            "{queue}: {unacceptable_type,longstr}"
        ),
    ),
)
def test_consumer_arguments(scene: Scene, misuse: dict[str, Any], expected: str) -> None:
    if "x-cancel-on-ha-failover" in misuse and scene.profile.ignores_ha_failover:
        scene.ch.consume(scene.ch.declare(exclusive=True), arguments=misuse)
        return
    scene.ch.declare(scene.q)
    scene.ch.send(BasicConsume(queue=scene.q, arguments=Table(misuse)))
    scene.ch.expect_close(scene.fill(expected))


@rows(
    (
        "x-match: unknown",
        {"x-match": "some"},
        (
            'channel 406 queue.bind PRECONDITION_FAILED - Invalid x-match field value <<"some">>; expected '
            "all, any, all-with-x, or any-with-x"
        ),
    ),
    (
        "x-match: number",
        {"x-match": 1},
        (
            "channel 406 queue.bind PRECONDITION_FAILED - Invalid x-match field type signedint (value 1); "
            "expected longstr"
        ),
    ),
)
def test_headers_binding_arguments(scene: Scene, misuse: dict[str, Any], expected: str) -> None:
    scene.ch.declare(scene.q)
    scene.ch.send(QueueBind(queue=scene.q, exchange="amq.headers", arguments=Table(misuse)))
    scene.ch.expect_close(scene.fill(expected))


# ------------------------------------------------------------------------------------- names that nothing bears


@rows(
    ("queue.declare passive", QueueDeclare(queue="nil", passive=True), "no queue 'nil' in vhost '{vhost}'"),
    ("queue.bind", QueueBind(queue="nil", exchange="amq.direct"), "no queue 'nil' in vhost '{vhost}'"),
    ("queue.bind: no exchange", QueueBind(queue="here", exchange="nil"), "no exchange 'nil' in vhost '{vhost}'"),
    ("queue.bind: neither", QueueBind(queue="nil", exchange="nil"), "no exchange 'nil' in vhost '{vhost}'"),
    ("queue.purge", QueuePurge(queue="nil"), "no queue 'nil' in vhost '{vhost}'"),
    ("basic.get", BasicGet(queue="nil"), "no queue 'nil' in vhost '{vhost}'"),
    ("basic.consume", BasicConsume(queue="nil"), "no queue 'nil' in vhost '{vhost}'"),
    ("exchange.declare passive", ExchangeDeclare(exchange="nil", passive=True), "no exchange 'nil' in vhost '{vhost}'"),
    (
        "exchange.bind: no source",
        ExchangeBind(destination="amq.direct", source="nil"),
        "no exchange 'nil' in vhost '{vhost}'",
    ),
    (
        "exchange.bind: no destination",
        ExchangeBind(destination="nil", source="amq.direct"),
        "no exchange 'nil' in vhost '{vhost}'",
    ),
    ("no last queue: queue.bind", QueueBind(exchange="amq.direct"), "no previously declared queue"),
    ("no last queue: queue.purge", QueuePurge(), "no previously declared queue"),
    ("no last queue: queue.delete", QueueDelete(), "no previously declared queue"),
    ("no last queue: basic.get", BasicGet(), "no previously declared queue"),
    ("no last queue: basic.consume", BasicConsume(), "no previously declared queue"),
    ("no last queue: queue.unbind", QueueUnbind(exchange="amq.direct"), "no previously declared queue"),
    ("no last queue: queue.declare passive", QueueDeclare(passive=True), "no queue '' in vhost '{vhost}'"),
)
def test_unknown_names(scene: Scene, misuse: Method, expected: str) -> None:
    _declare_here(scene)
    ch = scene.beside()
    ch.send(misuse)
    ch.expect_close(scene.fill(f"channel 404 {misuse.name} NOT_FOUND - {expected}"))


# --------------------------------------------------------------------------------------- what may not be touched


@rows(
    (
        "queue.declare: amq.",
        QueueDeclare(queue="amq.mine"),
        "channel 403 queue.declare ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'",
    ),
    (
        "queue.declare passive: amq.",
        QueueDeclare(queue="amq.mine", passive=True),
        "channel 404 queue.declare NOT_FOUND - no queue 'amq.mine' in vhost '{vhost}'",
    ),
    (
        "exchange.declare: amq.",
        ExchangeDeclare(exchange="amq.mine"),
        ("channel 403 exchange.declare ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'"),
    ),
    (
        "exchange.declare passive: amq.",
        ExchangeDeclare(exchange="amq.mine", passive=True),
        "channel 404 exchange.declare NOT_FOUND - no exchange 'amq.mine' in vhost '{vhost}'",
    ),
    (
        "exchange.declare: amq.direct otherwise",
        ExchangeDeclare(exchange="amq.direct", type="fanout"),
        (
            "channel 406 exchange.declare PRECONDITION_FAILED - inequivalent arg 'type' for exchange "
            "'amq.direct' in vhost '{vhost}': received 'fanout' but current is 'direct'"
        ),
    ),
    (
        "exchange.declare: the default one",
        ExchangeDeclare(exchange="", type="direct", durable=True),
        "channel 403 exchange.declare ACCESS_REFUSED - operation not permitted on the default exchange",
    ),
    (
        "exchange.declare passive: the default one",
        ExchangeDeclare(exchange="", passive=True),
        "channel 403 exchange.declare ACCESS_REFUSED - operation not permitted on the default exchange",
    ),
    (
        "exchange.delete: amq.direct",
        ExchangeDelete(exchange="amq.direct"),
        (
            "channel 403 exchange.delete ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost "
            "'{vhost}' not allowed"
        ),
    ),
    (
        "exchange.delete: the default one",
        ExchangeDelete(exchange=""),
        "channel 403 exchange.delete ACCESS_REFUSED - operation not permitted on the default exchange",
    ),
    (
        "exchange.delete: amq. that is not there",
        ExchangeDelete(exchange="amq.mine"),
        (
            "channel 403 exchange.delete ACCESS_REFUSED - deletion of system exchange 'amq.mine' in vhost "
            "'{vhost}' not allowed"
        ),
    ),
    (
        "exchange.bind: to the default one",
        ExchangeBind(destination="", source="amq.direct"),
        "channel 403 exchange.bind ACCESS_REFUSED - operation not permitted on the default exchange",
    ),
    (
        "exchange.bind: from the default one",
        ExchangeBind(destination="amq.direct", source=""),
        "channel 403 exchange.bind ACCESS_REFUSED - operation not permitted on the default exchange",
    ),
    (
        "exchange.unbind: from the default one",
        ExchangeUnbind(destination="amq.direct", source=""),
        "channel 403 exchange.unbind ACCESS_REFUSED - operation not permitted on the default exchange",
    ),
    (
        "queue.bind: the default one",
        QueueBind(queue="here", exchange="", routing_key="k"),
        "channel 403 queue.bind ACCESS_REFUSED - operation not permitted on the default exchange",
    ),
    (
        "queue.unbind: the default one",
        QueueUnbind(queue="here", exchange="", routing_key="here"),
        "channel 403 queue.unbind ACCESS_REFUSED - operation not permitted on the default exchange",
    ),
)
def test_reserved_names(scene: Scene, misuse: Method, expected: str) -> None:
    _declare_here(scene)
    ch = scene.beside()
    ch.send(misuse)
    ch.expect_close(scene.fill(expected))


@rows(
    ("queue.declare", lambda q: QueueDeclare(queue=q, exclusive=True), LOCKED),
    ("queue.declare passive", lambda q: QueueDeclare(queue=q, passive=True), LOCKED),
    ("queue.declare otherwise", lambda q: QueueDeclare(queue=q, durable=True), LOCKED),
    ("queue.bind", lambda q: QueueBind(queue=q, exchange="amq.direct"), LOCKED),
    ("queue.unbind", lambda q: QueueUnbind(queue=q, exchange="amq.fanout"), LOCKED),
    ("queue.purge", lambda q: QueuePurge(queue=q), LOCKED),
    ("queue.delete", lambda q: QueueDelete(queue=q), LOCKED),
    ("basic.get", lambda q: BasicGet(queue=q), LOCKED),
    ("basic.consume", lambda q: BasicConsume(queue=q), LOCKED),
)
def test_exclusive_queue_of_another_connection(scene: Scene, misuse: Callable[[str], Method], expected: str) -> None:
    scene.ch.declare(scene.q, exclusive=True)
    scene.ch.bind(scene.q, "amq.fanout")
    other = scene.channel()
    method = misuse(scene.q)
    other.send(method)
    other.expect_close(scene.fill(f"channel 405 {method.name} {expected}"))


@pytest.mark.parametrize("source", ["amq.direct", "nowhere"])
def test_removing_what_is_not_there_needs_no_permission(scene: Scene, source: str) -> None:
    """Not even whose queue it is."""
    scene.ch.declare(scene.q, exclusive=True)
    scene.channel().call(QueueUnbind(queue=scene.q, exchange=source, routing_key="k"))


# -------------------------------------------------------------------------------------------------- on a channel


def _unacked(scene: Scene, ch: Channel) -> int:
    """A delivery's tag, not yet acknowledged."""
    ch.declare(scene.q, exclusive=True)
    ch.publish("", scene.q)
    received = ch.get(scene.q, no_ack=False)
    assert received
    return received.method.delivery_tag  # type: ignore[no-any-return]


def _acked_twice(scene: Scene, ch: Channel) -> None:
    tag = _unacked(scene, ch)
    ch.ack(tag)
    ch.ack(tag)


def _acked_up_to_what_is_settled(scene: Scene, ch: Channel) -> None:
    first = _unacked(scene, ch)
    ch.publish("", scene.q)
    second = ch.get(scene.q, no_ack=False)
    assert second
    ch.ack(second)
    ch.ack(first + 1, multiple=True)


def _consumed(scene: Scene, ch: Channel, **flags: bool) -> None:
    ch.declare(scene.q)
    ch.consume(scene.q, "one", **flags)


def _filled(scene: Scene, ch: Channel) -> None:
    ch.declare(scene.q, exclusive=True)
    ch.publish("", scene.q)


@rows(
    (
        "basic.ack: unknown tag",
        lambda s, ch: ch.send(BasicAck(7)),
        "channel 406 basic.ack PRECONDITION_FAILED - unknown delivery tag 7",
    ),
    (
        "basic.ack: unknown tag, multiple",
        lambda s, ch: ch.send(BasicAck(7, True)),
        "channel 406 basic.ack PRECONDITION_FAILED - unknown delivery tag 7",
    ),
    (
        "basic.ack: 0",
        lambda s, ch: ch.send(BasicAck(0)),
        "channel 406 basic.ack PRECONDITION_FAILED - unknown delivery tag 0",
    ),
    ("basic.ack: twice", _acked_twice, "channel 406 basic.ack PRECONDITION_FAILED - unknown delivery tag 1"),
    (
        "basic.ack: one too far, multiple",
        lambda s, ch: ch.send(BasicAck(_unacked(s, ch) + 1, True)),
        "channel 406 basic.ack PRECONDITION_FAILED - unknown delivery tag 2",
    ),
    (
        "basic.ack: all up to one that is settled",
        _acked_up_to_what_is_settled,
        "channel 406 basic.ack PRECONDITION_FAILED - unknown delivery tag 2",
    ),
    (
        "basic.nack: unknown tag",
        lambda s, ch: ch.send(BasicNack(7)),
        "channel 406 basic.nack PRECONDITION_FAILED - unknown delivery tag 7",
    ),
    (
        "basic.nack: 0",
        lambda s, ch: ch.send(BasicNack(0)),
        "channel 406 basic.nack PRECONDITION_FAILED - unknown delivery tag 0",
    ),
    (
        "basic.nack: unknown tag, multiple",
        lambda s, ch: ch.send(BasicNack(7, True)),
        "channel 406 basic.nack PRECONDITION_FAILED - unknown delivery tag 7",
    ),
    (
        "basic.reject: unknown tag",
        lambda s, ch: ch.send(BasicReject(7)),
        "channel 406 basic.reject PRECONDITION_FAILED - unknown delivery tag 7",
    ),
    (
        "basic.reject: 0",
        lambda s, ch: ch.send(BasicReject(0)),
        "channel 406 basic.reject PRECONDITION_FAILED - unknown delivery tag 0",
    ),
    (
        "basic.recover: without requeue",
        lambda s, ch: ch.send(BasicRecover(False)),
        "connection 540 basic.recover NOT_IMPLEMENTED - requeue=false",
    ),
    (
        "basic.qos: prefetch-size",
        lambda s, ch: ch.send(BasicQos(1024, 0)),
        "connection 540 basic.qos NOT_IMPLEMENTED - prefetch_size!=0 (1024)",
    ),
    (
        "channel.flow: off",
        lambda s, ch: ch.send(ChannelFlow(False)),
        "connection 540 channel.flow NOT_IMPLEMENTED - active=false",
    ),
    (
        "basic.consume: the same tag twice",
        lambda s, ch: (_consumed(s, ch), ch.send(BasicConsume(queue=s.q, consumer_tag="one"))),
        "connection 530 basic.consume NOT_ALLOWED - attempt to reuse consumer tag 'one'",
    ),
    (
        "basic.consume: a second one, exclusive",
        lambda s, ch: (_consumed(s, ch), ch.send(BasicConsume(queue=s.q, exclusive=True))),
        "channel 403 basic.consume ACCESS_REFUSED - {queue} in exclusive use",
    ),
    (
        "basic.consume: a second one beside an exclusive one",
        lambda s, ch: (_consumed(s, ch, exclusive=True), ch.send(BasicConsume(queue=s.q))),
        "channel 403 basic.consume ACCESS_REFUSED - {queue} in exclusive use",
    ),
    (
        "basic.consume: exclusive on single active consumer",
        lambda s, ch: (
            ch.declare(s.q, arguments={"x-single-active-consumer": True}),
            ch.send(BasicConsume(queue=s.q, exclusive=True)),
        ),
        "channel 403 basic.consume ACCESS_REFUSED - {queue} in exclusive use",
    ),
    (
        "queue.delete if-unused: consumed",
        lambda s, ch: (_consumed(s, ch), ch.send(QueueDelete(queue=s.q, if_unused=True))),
        "channel 406 queue.delete PRECONDITION_FAILED - {queue} in use",
    ),
    (
        "queue.delete if-empty: not empty",
        lambda s, ch: (_filled(s, ch), ch.send(QueueDelete(queue=s.q, if_empty=True))),
        "channel 406 queue.delete PRECONDITION_FAILED - {queue} not empty",
    ),
    (
        "exchange.delete if-unused: bound",
        lambda s, ch: (
            ch.exchange(s.x),
            ch.bind(ch.declare(exclusive=True), s.x),
            ch.send(ExchangeDelete(exchange=s.x, if_unused=True)),
        ),
        "channel 406 exchange.delete PRECONDITION_FAILED - {exchange} in use",
    ),
    (
        "basic.publish: no exchange",
        lambda s, ch: ch.publish(s.x, "k"),
        "channel 404 basic.publish NOT_FOUND - no {exchange}",
    ),
    (
        "basic.publish: an internal exchange",
        lambda s, ch: (ch.exchange(s.x, internal=True, auto_delete=True), ch.publish(s.x, "k")),
        "channel 403 basic.publish ACCESS_REFUSED - cannot publish to internal {exchange}",
    ),
    (
        "basic.publish: immediate",
        lambda s, ch: ch.publish("", "k", immediate=True),
        "connection 540 basic.publish NOT_IMPLEMENTED - immediate=true",
    ),
    (
        "basic.publish: user-id",
        lambda s, ch: ch.publish("", "k", user_id="nobody"),
        (
            "channel 406 basic.publish PRECONDITION_FAILED - user_id property set to 'nobody' but authenticated "
            "user was 'guest'"
        ),
    ),
    (
        "basic.publish: expiration: text",
        lambda s, ch: ch.publish("", "k", expiration="soon"),
        "channel 406 basic.publish PRECONDITION_FAILED - invalid expiration 'soon': no_integer",
    ),
    (
        "basic.publish: expiration: negative",
        lambda s, ch: ch.publish("", "k", expiration="-1"),
        "channel 406 basic.publish PRECONDITION_FAILED - invalid expiration '-1': {value_negative,-1}",
    ),
    (
        "basic.publish: expiration: fraction",
        lambda s, ch: ch.publish("", "k", expiration="1.5"),
        "channel 406 basic.publish PRECONDITION_FAILED - invalid expiration '1.5': {leftover_string,\".5\"}",
    ),
    (
        "basic.publish: expiration: empty",
        lambda s, ch: ch.publish("", "k", expiration=""),
        "channel 406 basic.publish PRECONDITION_FAILED - invalid expiration '': no_integer",
    ),
    (
        "basic.publish: expiration: a number and more",
        lambda s, ch: ch.publish("", "k", expiration="5s"),
        "channel 406 basic.publish PRECONDITION_FAILED - invalid expiration '5s': {leftover_string,\"s\"}",
    ),
    (
        "basic.publish: expiration: too large",
        lambda s, ch: ch.publish("", "k", expiration=str(2**40)),
        (
            "channel 406 basic.publish PRECONDITION_FAILED - invalid expiration '1099511627776': "
            "{value_too_large,1099511627776}"
        ),
    ),
    (
        "basic.publish: CC: text",
        lambda s, ch: ch.publish("", "k", headers={"CC": "k"}),
        ('channel 406 basic.publish PRECONDITION_FAILED - invalid message: {unacceptable_type_in_header,"CC",longstr}'),
    ),
    (
        "basic.publish: BCC: number",
        lambda s, ch: ch.publish("", "k", headers={"BCC": 1}),
        (
            "channel 406 basic.publish PRECONDITION_FAILED - invalid message: "
            '{unacceptable_type_in_header,"BCC",signedint}'
        ),
    ),
    (
        "basic.publish: reply-to without a consumer",
        lambda s, ch: ch.publish("", "k", reply_to="amq.rabbitmq.reply-to"),
        "channel 406 basic.publish PRECONDITION_FAILED - fast reply consumer does not exist",
    ),
    (
        "basic.consume: direct reply-to with acks",
        lambda s, ch: ch.send(BasicConsume(queue="amq.rabbitmq.reply-to")),
        "channel 406 basic.consume PRECONDITION_FAILED - reply consumer cannot acknowledge",
    ),
    (
        "basic.consume: direct reply-to twice",
        lambda s, ch: (
            ch.consume("amq.rabbitmq.reply-to", no_ack=True),
            ch.send(BasicConsume(queue="amq.rabbitmq.reply-to", no_ack=True)),
        ),
        "channel 406 basic.consume PRECONDITION_FAILED - reply consumer already set",
    ),
    (
        "tx.commit: no transaction",
        lambda s, ch: ch.send(TxCommit()),
        "channel 406 tx.commit PRECONDITION_FAILED - channel is not transactional",
    ),
    (
        "tx.rollback: no transaction",
        lambda s, ch: ch.send(TxRollback()),
        "channel 406 tx.rollback PRECONDITION_FAILED - channel is not transactional",
    ),
    (
        "tx.select: after confirms",
        lambda s, ch: (ch.confirms(), ch.send(TxSelect())),
        "channel 406 tx.select PRECONDITION_FAILED - cannot switch from confirm to tx mode",
    ),
    (
        "confirm.select: after tx",
        lambda s, ch: (ch.call(TxSelect()), ch.send(ConfirmSelect())),
        "channel 406 confirm.select PRECONDITION_FAILED - cannot switch from tx to confirm mode",
    ),
    (
        "tx: basic.ack of an unknown tag",
        lambda s, ch: (ch.call(TxSelect()), ch.send(BasicAck(7))),
        "channel 406 basic.ack PRECONDITION_FAILED - unknown delivery tag 7",
    ),
    (
        "queue.declare: a long name",
        lambda s, ch: ch.send(QueueDeclare(queue="n" * 255, passive=True)),
        (
            "channel 404 queue.declare NOT_FOUND - no queue "
            "'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn..."
        ),
    ),
    (
        "queue.declare: a name of two lines",
        lambda s, ch: ch.send(QueueDeclare(queue="a\nb", passive=True)),
        "channel 404 queue.declare NOT_FOUND - no queue 'ab' in vhost '{vhost}'",
    ),
    (
        "exchange.declare: a name in UTF-8",
        lambda s, ch: ch.send(ExchangeDeclare(exchange="é", passive=True)),
        "channel 404 exchange.declare NOT_FOUND - no exchange 'é' in vhost '{vhost}'",
    ),
)
def test_on_a_channel(scene: Scene, misuse: Misuse, expected: str) -> None:
    misuse(scene, scene.ch)
    scene.ch.expect_close(scene.fill(expected))


# ------------------------------------------------------------------------------------ on queues of other types


def _quorum(scene: Scene, ch: Channel) -> str:
    return ch.declare(scene.q, durable=True, arguments={"x-queue-type": "quorum"})


def _stream(scene: Scene, ch: Channel) -> str:
    return ch.declare(scene.q, durable=True, arguments={"x-queue-type": "stream"})


@rows(
    (
        "quorum: basic.qos global",
        lambda s, ch: (ch.qos(1, global_=True), ch.send(BasicConsume(queue=_quorum(s, ch)))),
        "connection 540 basic.consume NOT_IMPLEMENTED - {queue} does not support global qos",
    ),
    (
        "quorum: queue.delete if-unused",
        lambda s, ch: (ch.consume(_quorum(s, ch)), ch.send(QueueDelete(queue=s.q, if_unused=True))),
        (
            "connection 540 queue.delete NOT_IMPLEMENTED - cannot delete {queue}. queue.delete operations "
            "with if-unused flag set are not supported by quorum queues"
        ),
    ),
    (
        "quorum: queue.delete if-empty",
        lambda s, ch: ch.send(QueueDelete(queue=_quorum(s, ch), if_empty=True)),
        (
            "connection 540 queue.delete NOT_IMPLEMENTED - cannot delete {queue}. queue.delete operations "
            "with if-empty flag set are not supported by quorum queues"
        ),
    ),
    (
        "stream: basic.get",
        lambda s, ch: ch.send(BasicGet(queue=_stream(s, ch))),
        "connection 540 basic.get NOT_IMPLEMENTED - basic.get not supported by stream queues {queue}",
    ),
    (
        "stream: basic.consume without prefetch",
        lambda s, ch: ch.send(BasicConsume(queue=_stream(s, ch))),
        "channel 406 basic.consume PRECONDITION_FAILED - consumer prefetch count is not set for {unset}",
    ),
    (
        "stream: basic.consume without acks",
        lambda s, ch: (ch.qos(1), ch.send(BasicConsume(queue=_stream(s, ch), no_ack=True))),
        ("connection 540 basic.consume NOT_IMPLEMENTED - automatic acknowledgement not supported by {stream}"),
    ),
    (
        "stream: queue.purge",
        lambda s, ch: ch.send(QueuePurge(queue=_stream(s, ch))),
        "connection 540 queue.purge NOT_IMPLEMENTED - queue.purge not supported by stream queues {queue}",
    ),
    (
        "stream: basic.qos global",
        lambda s, ch: (ch.qos(1, global_=True), ch.send(BasicConsume(queue=_stream(s, ch)))),
        "channel 406 basic.consume PRECONDITION_FAILED - consumer prefetch count is not set for {unset}",
    ),
)
def test_on_other_queue_types(scene: Scene, misuse: Misuse, expected: str, request: pytest.FixtureRequest) -> None:
    if "basic.qos global" in request.node.name and not scene.profile.permits("global_qos"):
        pytest.skip("the version takes it for a limit of each consumer")
    misuse(scene, scene.ch)
    scene.ch.expect_close(scene.fill(expected))
    scene.channel().call(QueueDelete(queue=scene.q))


@rows(
    ("quorum", {"x-queue-type": "quorum"}, "Cannot declare a server-named queue for type rabbit_quorum_queue"),
    ("stream", {"x-queue-type": "stream"}, "Cannot declare a server-named queue for type rabbit_stream_queue"),
)
def test_server_named(scene: Scene, misuse: dict[str, str], expected: str) -> None:
    scene.ch.send(QueueDeclare(durable=True, arguments=Table(misuse)))
    scene.ch.expect_close("channel 406 queue.declare PRECONDITION_FAILED - " + expected)


@pytest.mark.unsupported_on_rabbitmq("it crashes, and closes the connection with 541 INTERNAL_ERROR")
@rows(
    (
        "x-max-age",
        lambda s, ch: ch.send(
            _declare(s.q, {"durable": True, "arguments": {"x-queue-type": "stream", "x-max-age": "an hour"}})
        ),
        "queue.declare PRECONDITION_FAILED - invalid arg 'x-max-age' for {queue}: invalid_max_age",
    ),
    (
        "x-stream-offset: unknown",
        lambda s, ch: (
            ch.qos(1),
            ch.send(BasicConsume(queue=_stream(s, ch), arguments=Table({"x-stream-offset": "middle"}))),
        ),
        "basic.consume PRECONDITION_FAILED - invalid arg 'x-stream-offset' for {queue}: invalid_offset",
    ),
    (
        "x-stream-offset: bool",
        lambda s, ch: (
            ch.qos(1),
            ch.send(BasicConsume(queue=_stream(s, ch), arguments=Table({"x-stream-offset": True}))),
        ),
        "basic.consume PRECONDITION_FAILED - invalid arg 'x-stream-offset' for {queue}: {unacceptable_type,bool}",
    ),
)
def test_invalid_for_streams(scene: Scene, misuse: Misuse, expected: str) -> None:
    misuse(scene, scene.ch)
    scene.ch.expect_close(scene.fill("channel 406 " + expected))


# ----------------------------------------------------------------------------------------- on the connection


PUBLISH = BasicPublish(routing_key="nowhere").encode()
SIZE_1 = ContentHeader(1).encode()
DECLARE = QueueDeclare(queue="q").encode()[:-4]
"""Without its table."""


def send_frame(ch: Channel, kind: int, payload: bytes) -> None:
    ch.client.send_bytes(frame(kind, ch.number, payload))


@rows(
    (
        "channel opened twice",
        lambda s, ch: ch.send(ChannelOpen()),
        "504 channel.open CHANNEL_ERROR - second 'channel.open' seen",
    ),
    (
        "channel not open",
        lambda s, ch: Channel(ch.client, 9).send(BasicQos()),
        "504 basic.qos CHANNEL_ERROR - expected 'channel.open'",
    ),
    (
        "a channel's method on channel 0",
        lambda s, ch: ch.client.zero.send(BasicQos()),
        "504 basic.qos CHANNEL_ERROR - unexpected method in connection state running",
    ),
    (
        "a connection's method on a channel",
        lambda s, ch: ch.send(ConnectionOpen("/")),
        "503 connection.open COMMAND_INVALID - unimplemented method",
    ),
    (
        "connection.open twice",
        lambda s, ch: ch.client.zero.send(ConnectionOpen("/")),
        "504 connection.open CHANNEL_ERROR - unexpected method in connection state running",
    ),
    (
        "connection.tune-ok twice",
        lambda s, ch: ch.client.zero.send(ConnectionTuneOk(0, 131072, 0)),
        "504 connection.tune-ok CHANNEL_ERROR - unexpected method in connection state running",
    ),
    (
        "connection.start-ok twice",
        lambda s, ch: ch.client.zero.send(ConnectionStartOk()),
        "504 connection.start-ok CHANNEL_ERROR - unexpected method in connection state running",
    ),
    (
        "a frame of an unknown type",
        lambda s, ch: send_frame(ch, 5, b""),
        "501 0.0 FRAME_ERROR - type 5, all octets = <<>>: unknown_frame",
    ),
    (
        "a frame without its end",
        lambda s, ch: ch.client.send_bytes(b"\x01\0\1\0\0\0\4\0\x3c\0\x0a\0"),
        "501 0.0 FRAME_ERROR - type 1, all octets = <<0,60,0,10>>: {invalid_frame_end_marker,0}",
    ),
    (
        "a frame too large",
        lambda s, ch: ch.client.send_bytes(b"\x03\0\1\x00\x02\x00\x01"),
        "501 0.0 FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,131073,131064}",
    ),
    (
        "a method frame with nothing in it",
        lambda s, ch: send_frame(ch, 1, b""),
        "501 0.0 FRAME_ERROR - type 1, all octets = <<>>: unknown_frame",
    ),
    (
        "a header frame with no method before",
        lambda s, ch: send_frame(ch, 2, b"\0\x3c" + bytes(12)),
        "505 0.0 UNEXPECTED_FRAME - expected method frame, got non method frame instead",
    ),
    (
        "a body frame with no method before",
        lambda s, ch: send_frame(ch, 3, b"x"),
        "505 0.0 UNEXPECTED_FRAME - expected method frame, got non method frame instead",
    ),
    (
        "a method where a header is due",
        lambda s, ch: (send_frame(ch, 1, PUBLISH), ch.send(BasicQos())),
        (
            "505 basic.publish UNEXPECTED_FRAME - expected content header for class 60, got non content header "
            "frame instead"
        ),
    ),
    (
        "a body where a header is due",
        lambda s, ch: (send_frame(ch, 1, PUBLISH), send_frame(ch, 3, b"x")),
        (
            "505 basic.publish UNEXPECTED_FRAME - expected content header for class 60, got non content header "
            "frame instead"
        ),
    ),
    (
        "a method where a body is due",
        lambda s, ch: (send_frame(ch, 1, PUBLISH), send_frame(ch, 2, SIZE_1), ch.send(BasicQos())),
        ("505 basic.publish UNEXPECTED_FRAME - expected content body, got non content body frame instead"),
    ),
    (
        "a header of another class",
        lambda s, ch: (send_frame(ch, 1, PUBLISH), send_frame(ch, 2, b"\0\x32" + bytes(12))),
        "505 basic.publish UNEXPECTED_FRAME - expected content header for class 60, got one for class 50 instead",
    ),
    (
        "a table that overruns",
        lambda s, ch: send_frame(ch, 1, DECLARE + b"\0\0\0\x09\1kV"),
        "501 queue.declare FRAME_ERROR - cannot decode <<0,0,1,113,0,0,0,0,9,1,107,86>>",
    ),
    (
        "a name that is not UTF-8",
        lambda s, ch: send_frame(ch, 1, b"\0\x32\0\x0a\0\0\1\xff\0\0\0\0\0"),
        "501 0.0 FRAME_ERROR - Malformed UTF-8 in shortstr",
    ),
    (
        "a method cut short",
        lambda s, ch: send_frame(ch, 1, b"\0\x3c\0\x1e\x09x"),
        "501 basic.cancel FRAME_ERROR - cannot decode <<9,120>>",
    ),
    (
        "a method with bytes left over",
        lambda s, ch: send_frame(ch, 1, BasicQos().encode() + b"x"),
        "501 basic.qos FRAME_ERROR - cannot decode <<0,0,0,0,0,0,0,120>>",
    ),
    (
        "a server's method",
        lambda s, ch: ch.send(BasicQosOk()),
        "503 basic.qos-ok COMMAND_INVALID - unimplemented method",
    ),
    (
        "a server's method with content",
        lambda s, ch: send_frame(ch, 1, b"\0\x3c\0\x32" + bytes(4)),
        "501 basic.return FRAME_ERROR - cannot decode <<0,0,0,0>>",
    ),
)
def test_on_the_connection(scene: Scene, misuse: Misuse, expected: str) -> None:
    misuse(scene, scene.ch)
    scene.ch.expect_close(scene.fill("connection " + expected))


@pytest.mark.unsupported_on_rabbitmq("its reader crashes, and the socket closes without a word")
def test_unknown_field_type(ch: Channel) -> None:
    send_frame(ch, 1, DECLARE + b"\0\0\0\3\1k?")
    assert ch.refusal().startswith("connection 502 queue.declare SYNTAX_ERROR")


# ------------------------------------------------------------------------------------------- no misuse at all


@rows(
    ("queue.delete: no such queue", lambda s, ch: ch.call(QueueDelete(queue="nil")), None),
    ("exchange.delete: no such exchange", lambda s, ch: ch.call(ExchangeDelete(exchange="nil")), None),
    ("queue.unbind: nothing there", lambda s, ch: ch.call(QueueUnbind(queue="nil", exchange="nil")), None),
    ("exchange.unbind: nothing there", lambda s, ch: ch.call(ExchangeUnbind(destination="nil", source="nil")), None),
    ("basic.cancel: no such consumer", lambda s, ch: ch.call(BasicCancel("nil")), None),
    ("basic.ack: 0, multiple, nothing unacked", lambda s, ch: ch.ack(0, multiple=True), None),
    ("basic.nack: 0, multiple, nothing unacked", lambda s, ch: ch.nack(0, multiple=True), None),
    ("tx.select: twice", lambda s, ch: (ch.call(TxSelect()), ch.call(TxSelect())), None),
    ("confirm.select: twice", lambda s, ch: (ch.confirms(), ch.confirms()), None),
    ("unknown arguments", lambda s, ch: ch.declare(s.q, exclusive=True, arguments={"x-mine": "1", "y": 2}), None),
    (
        "passive declares compare nothing",
        lambda s, ch: (
            ch.declare(s.q, exclusive=True),
            ch.call(QueueDeclare(queue=s.q, passive=True, durable=True, arguments=Table({"x-expires": -1}))),
        ),
        None,
    ),
    (
        "numbers compare by value, not by wire type",
        lambda s, ch: (
            ch.declare(s.q, exclusive=True, arguments={"x-max-length": Item("b", 5)}),
            ch.declare(s.q, exclusive=True, arguments={"x-max-length": Item("l", 5)}),
        ),
        None,
    ),
    (
        "unknown arguments are not compared",
        lambda s, ch: (
            ch.declare(s.q, exclusive=True, arguments={"x-mine": 1}),
            ch.declare(s.q, exclusive=True, arguments={"x-mine": 2}),
        ),
        None,
    ),
    ("CC of numbers", lambda s, ch: ch.publish("", "k", headers={"CC": [1]}), None),
    ("channel numbers above channel-max", lambda s, ch: ch.client.channel(3000), None),
    (
        "quorum: a negative delivery-limit",
        lambda s, ch: ch.declare(s.q, durable=True, arguments={"x-queue-type": "quorum", "x-delivery-limit": -1}),
        None,
    ),
    (
        "quorum: reject-publish-dlx",
        lambda s, ch: ch.declare(
            s.q, durable=True, arguments={"x-queue-type": "quorum", "x-overflow": "reject-publish-dlx"}
        ),
        None,
    ),
    (
        "quorum: an exclusive consumer beside one",
        lambda s, ch: (ch.consume(_quorum(s, ch)), ch.consume(s.q, exclusive=True)),
        None,
    ),
    ("amq.direct as it is", lambda s, ch: ch.exchange("amq.direct", durable=True), None),
    (
        "an argument twice: the first counts",
        lambda s, ch: ch.call(
            QueueDeclare(
                queue=s.q,
                exclusive=True,
                arguments=Table([Field("x-max-length", "I", 5), Field("x-max-length", "I", -5)]),
            )
        ),
        None,
    ),
)
def test_allowed(scene: Scene, misuse: Misuse, expected: None) -> None:
    misuse(scene, scene.ch)
    scene.ch.expect_nothing()


def _declare_here(scene: Scene) -> None:
    """Declare the queue once that of the test before is gone: RabbitMQ 4.3 deletes it after the connection ends."""

    def declared() -> bool:
        try:
            scene.beside().declare("here", exclusive=True)
        except Closed:
            return False
        return True

    until(declared, "the queue of the test before to be gone")
    scene.ch.declare("here", exclusive=True)

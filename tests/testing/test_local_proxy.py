"""What tests ask of the proxy."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pika
import pika.exceptions
import pytest
import trio

from amqproxy.configuration.config import ConfigError
from amqproxy.testing import LocalBroker, LocalProxy, in_memory_recorder
from amqproxy.testing.active_rules import fault_rule, rules_of
from tests.real import raw

Channel = pika.adapters.blocking_connection.BlockingChannel


@pytest.fixture
def channel(amqp: LocalProxy) -> Iterator[Channel]:
    """A channel through the proxy, with a queue "q"."""
    with pika.BlockingConnection(pika.URLParameters(amqp.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("q")
        yield channel


def failure_of(call: Callable[[], Any]) -> str:
    with pytest.raises(AssertionError) as failure:
        call()
    return str(failure.value)


# ------------------------------------------------------------------------------------------------ what was recorded


def test_messages_and_findings_are_recorded(amqp: LocalProxy, channel: Channel) -> None:
    channel.confirm_delivery()
    channel.basic_publish("", "q", b"hello", pika.BasicProperties(headers={"tenant": "acme"}))
    (published,) = amqp.wait_for("headers.tenant == 'acme' && user == 'guest' && vhost == '/'")
    assert (published.type, published.body, published.outcome) == ("publish", "hello", "confirmed")
    assert amqp.messages.where("method == 'queue.declare' && queue == 'q'", outcome="answered")
    assert [each.kind for each in amqp.findings] == ["rabbitmq4-transient-queue"]


def test_an_open_message_is_pending(amqp: LocalProxy, channel: Channel) -> None:
    channel.basic_publish("", "q", b"hello")
    delivery, _, _ = channel.basic_get("q")
    assert delivery is not None
    assert [each.outcome for each in amqp.wait_for(type="get")] == ["pending"]
    channel.basic_ack(delivery.delivery_tag)
    assert len(amqp.wait_for(type="get", outcome="acked")) == 1
    assert len(amqp.messages.where(type="get")) == 1


def test_what_was_recorded_is_forgotten(amqp: LocalProxy, channel: Channel) -> None:
    channel.basic_publish("", "q", b"one")
    amqp.wait_for("body == 'one'")
    amqp.clear()
    assert amqp.messages == []
    assert amqp.last_lines() == ""
    channel.basic_publish("", "q", b"two")
    amqp.wait_for("body == 'two' && user == 'guest'")
    assert [each.body for each in amqp.messages.where(type="publish")] == ["two"]


def test_waiting_is_in_vain(amqp: LocalProxy, channel: Channel) -> None:
    channel.basic_publish("", "q", b"one")
    text = failure_of(lambda: amqp.wait_for("body == 'one'", count=2, timeout=0.05, type="publish"))
    assert text.startswith("1 of 2 seen within 0.05 s: body == 'one', type='publish'\n")
    assert "routing_key=q" in text
    assert "last frames" in text


def test_nothing_came_at_all(amqp: LocalProxy) -> None:
    text = failure_of(lambda: amqp.wait_for(timeout=0))
    assert text == "0 of 1 seen within 0 s: any message\nno connection has come to the proxy"


def test_what_cannot_be_waited_for(amqp: LocalProxy) -> None:
    with pytest.raises(ValueError, match="exchanje"):
        amqp.wait_for("exchanje == 'q'")
    with pytest.raises(TypeError, match="a record has no field 'outcom'"):
        amqp.wait_for(outcom="acked")


async def test_waiting_in_trio(amqp: LocalProxy) -> None:
    with pytest.raises(RuntimeError, match="await wait_for_async"):
        amqp.wait_for("method == 'queue.declare'")
    with pytest.raises(AssertionError, match="0 of 1"):
        await amqp.wait_for_async("method == 'queue.declare'", timeout=0)

    def declare() -> None:
        with raw.Peer.opened(amqp.port, 1) as peer:
            peer.send(raw.queue_declare(1, "q"))
            peer.expect(50, 11)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, declare)
        assert await amqp.wait_for_async("method == 'queue.declare'")


def test_waiting_in_asyncio(amqp: LocalProxy) -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match="await wait_for_async"):
            amqp.wait_for("method == 'queue.declare'")
        with pytest.raises(AssertionError, match="0 of 1"):
            await amqp.wait_for_async(timeout=0.02)

    asyncio.run(main())


# ------------------------------------------------------------------------------------------------------ assertions


def test_all_are_confirmed(amqp: LocalProxy, channel: Channel) -> None:
    amqp.assert_all_confirmed()
    channel.basic_publish("", "q", b"not confirmed")
    amqp.wait_for("body == 'not confirmed'")
    channel.confirm_delivery()
    channel.basic_publish("amq.topic", "", b"confirmed")
    amqp.assert_all_confirmed("exchange == 'amq.topic'")
    text = failure_of(amqp.assert_all_confirmed)
    assert text.startswith("1 of 2 publishes not confirmed\n")
    assert 'body="not confirmed"  ⇒ sent' in text.splitlines()[1]
    assert text.splitlines()[2].startswith("connection #1, 127.0.0.1:")


def test_a_publish_that_is_nacked(amqp: LocalProxy, channel: Channel) -> None:
    channel.confirm_delivery()
    with amqp.fault("nack"), pytest.raises(pika.exceptions.NackError):
        channel.basic_publish("", "q", b"hello")
    assert "⇒ nacked" in failure_of(amqp.assert_all_confirmed)


def test_committed_is_confirmed(amqp: LocalProxy, channel: Channel) -> None:
    channel.tx_select()
    channel.basic_publish("", "q", b"hello")
    assert "⇒ pending" in failure_of(lambda: amqp.assert_all_confirmed(timeout=0.05))
    channel.tx_commit()
    amqp.assert_all_confirmed()


def test_all_are_acked(amqp: LocalProxy, channel: Channel) -> None:
    for body in (b"acked", b"auto-acked", b"rejected", b"open"):
        channel.basic_publish("", "q", body)
    first, _, _ = channel.basic_get("q")
    assert first is not None
    channel.basic_ack(first.delivery_tag)
    channel.basic_get("q", auto_ack=True)
    amqp.assert_all_acked()
    rejected, _, _ = channel.basic_get("q")
    assert rejected is not None
    channel.basic_reject(rejected.delivery_tag, requeue=False)
    channel.basic_get("q")
    amqp.wait_for(outcome="rejected")
    amqp.assert_all_acked("body == 'acked'")
    text = failure_of(amqp.assert_all_acked)
    assert text.startswith("2 of 4 deliveries not acked\n")
    assert "⇒ rejected (not requeued)" in text.splitlines()[1]
    assert "⇒ pending" in text.splitlines()[2]


def test_an_assertion_waits_for_what_is_open(amqp: LocalProxy, channel: Channel) -> None:
    channel.basic_publish("", "q", b"hello")
    delivery, _, _ = channel.basic_get("q")
    assert delivery is not None
    later = threading.Timer(0.05, channel.basic_ack, [delivery.delivery_tag])
    later.start()
    amqp.assert_all_acked(timeout=10)
    later.join()


def test_findings(amqp: LocalProxy, channel: Channel) -> None:
    amqp.assert_no_findings("info", ignore=["rabbitmq4-transient-queue"])
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        channel.queue_declare("q", durable=True)
    text = failure_of(amqp.assert_no_findings)
    assert text.startswith("1 finding\n")
    assert "ERROR inequivalent-declare" in text
    assert "why:" in text
    assert "last messages" in text
    amqp.assert_no_findings(ignore=["inequivalent-declare"])
    with pytest.raises(ValueError, match="fatal"):
        amqp.assert_no_findings("fatal")


def test_nothing_holds_of_all_messages_where_some_were_dropped(
    broker: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_memory_recorder, "MOST_RECORDS", 3)
    with LocalProxy(broker.address) as proxy:
        with raw.Peer.opened(proxy.port, 1, 2, 3):
            pass
        proxy.wait_for(timeout=0, count=0)
        for check in (proxy.assert_all_acked, proxy.assert_all_confirmed, proxy.assert_no_findings):
            assert "not kept: call clear()" in failure_of(check)
        proxy.clear()
        proxy.assert_all_acked()


# --------------------------------------------------------------------------------------------------- what goes wrong


def test_rules_apply_within_their_block(amqp: LocalProxy, channel: Channel) -> None:
    refuse = {"name": "no deletes", "action": "refuse", "match": {"method": "queue.delete"}}
    tag = """
        [[rules]]
        name = "a tag"
        action = "tag"
        tags = ["seen"]
        match.method = "basic.publish"
    """
    with amqp.rules(tag), amqp.rules(refuse):
        channel.basic_publish("", "q", b"hello")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
            channel.queue_delete("q")
    assert closed.value.reply_code == 403
    assert amqp.wait_for("'seen' in tags", type="publish")
    (closed_channel,) = amqp.wait_for(type="channel", outcome="closed", code=403)
    assert closed_channel.method == "queue.delete"
    assert amqp.wait_for("method == 'queue.delete'", outcome="unanswered")
    channel.connection.channel().queue_delete("q")
    assert amqp.wait_for("method == 'queue.delete'", outcome="answered")


def test_blocks_may_end_in_any_order(amqp: LocalProxy, channel: Channel) -> None:
    refuse = amqp.rules({"name": "no deletes", "action": "refuse", "match": {"method": "queue.delete"}})
    delay = amqp.fault("delay", seconds=0.001)
    refuse.__enter__()
    delay.__enter__()
    refuse.__exit__(None, None, None)
    channel.queue_delete("q")
    delay.__exit__(None, None, None)
    channel.queue_declare("q")


def test_rules_that_are_wrong_change_nothing(amqp: LocalProxy, channel: Channel) -> None:
    with pytest.raises(ConfigError, match="unknown key `mach`"), amqp.rules({"name": "a", "action": "log", "mach": 1}):
        pass
    with pytest.raises(ConfigError, match="delay"), amqp.fault("latency"):
        pass
    rule = {"name": "a", "action": "tag", "tags": ["x"]}
    with amqp.rules(rule), pytest.raises(ValueError, match="`a` is the name of"), amqp.rules(rule):
        pass
    channel.queue_declare("q")


FAULTS: list[tuple[str, dict[str, Any]]] = [
    ("latency", {"delay": "1ms", "to": "client"}),
    ("bandwidth", {"rate": "1MiB"}),
    ("slicing", {"size": 3}),
    ("timeout", {"close_after": 60}),
    ("reset", {"after": 60}),
    ("half_close", {"after": 60}),
    ("slow_close", {"delay": 0}),
    ("limit_data", {"octets": 1000}),
    ("nack", {}),
    ("return", {"code": 312, "text": "NO_ROUTE"}),
    ("drop", {"told": "ack", "match": {"method": "basic.publish"}}),
    ("delay", {"seconds": 0.01, "jitter": 0.001}),
    ("duplicate", {"match": {"method": "basic.deliver"}, "probability": 0.5}),
    ("reorder", {"behind": 2}),
    ("close", {"code": 406, "scope": "connection", "text": "x", "match": {"method": "basic.publish"}, "nth": 3}),
    ("block", {"seconds": 1, "reason": "low on memory"}),
    ("cancel", {"count": 2}),
    ("corrupt", {"place": 1, "mask": 4, "per": "all"}),
]


@pytest.mark.parametrize(("kind", "settings"), FAULTS, ids=[kind for kind, _ in FAULTS])
def test_every_kind_of_fault_is_a_rule(amqp: LocalProxy, kind: str, settings: dict[str, Any]) -> None:
    (rule,) = rules_of(fault_rule(kind, 1, settings))
    assert rule.name == f"{kind} 1"
    with amqp.fault(kind, **settings):
        pass


def test_all_kinds_of_faults_are_tried() -> None:
    with pytest.raises(ConfigError) as wrong:
        rules_of(fault_rule("none", 1, {}))
    assert "'none'" in str(wrong.value)


def test_a_fault_of_bytes_begins_and_ends_on_an_open_connection(amqp: LocalProxy) -> None:
    with raw.Peer.opened(amqp.port) as peer:
        with amqp.fault("timeout", to="client"):
            peer.send(raw.channel_open(1))
            amqp.wait_for(type="channel", outcome="opened")
            peer.stream.settimeout(0.05)
            with pytest.raises(TimeoutError):
                peer.stream.recv(1)
        peer.stream.settimeout(raw.DEADLINE)
        peer.expect(20, 11)


def test_a_rule_may_mirror(amqp: LocalProxy, channel: Channel) -> None:
    channel.exchange_declare("copies", "fanout")
    channel.queue_declare("copied")
    channel.queue_bind("copied", "copies")
    rule = {"name": "m", "action": "mirror", "exchange": "copies", "match": {"routing_key": "q", "exchange": ""}}
    with amqp.rules(rule):
        channel.basic_publish("", "q", b"hello")
        for _, _, body in channel.consume("copied", auto_ack=True, inactivity_timeout=10):
            assert body == b"hello"
            break
        channel.cancel()


def test_all_connections_are_cut(amqp: LocalProxy) -> None:
    assert amqp.cut() == 0
    with raw.Peer.opened(amqp.port, 1) as one, raw.Peer.opened(amqp.port, 1) as other:
        assert amqp.cut() == 2
        for peer in (one, other):
            with pytest.raises(ConnectionResetError):
                peer.stream.recv(1)
    with raw.Peer.opened(amqp.port, 1):
        pass


# -------------------------------------------------------------------------------------------------- the proxy itself


def test_it_ends_with_its_block(broker: LocalBroker) -> None:
    with LocalProxy(broker.address) as proxy:
        peer = raw.Peer.opened(proxy.port, 1)
    with peer:
        assert peer.receive(1) == b""
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((proxy.host, proxy.port))


def test_what_it_recorded_stays(broker: LocalBroker) -> None:
    with LocalProxy(broker.address) as proxy, raw.Peer.opened(proxy.port, 1) as peer:
        peer.send(raw.queue_declare(1, "q"))
        peer.expect(50, 11)
    assert proxy.wait_for("queue == 'q'")
    proxy.assert_all_acked()
    assert "queue.declare" in proxy.last_lines()


def test_a_broker_that_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with LocalProxy(f"127.0.0.1:{port}") as proxy, raw.Peer.connect(proxy.port) as peer:
        peer.send(raw.PROTOCOL_HEADER)
        assert peer.receive(1) == b""


def test_it_prints_nothing() -> None:
    code = """
from amqproxy.testing import LocalBroker, LocalProxy
from tests.real import raw

with LocalBroker() as broker, LocalProxy(broker.address) as proxy:
    with proxy.fault("close", code=406, match={"method": "channel.open"}), raw.Peer.opened(proxy.port) as peer:
        peer.send(raw.channel_open(1))
        peer.expect(20, 40)
    proxy.cut()
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stdout) == (0, "")


OUTCOMES: list[tuple[str, dict[str, Any], str]] = [
    ("nack", {}, "nacked"),
    ("return", {}, "confirmed"),
    ("drop", {"told": "ack"}, "confirmed"),
    ("drop", {"told": "nack"}, "nacked"),
    ("delay", {"seconds": 0.001}, "confirmed"),
    ("duplicate", {}, "confirmed"),
    ("slicing", {"size": 1000}, "confirmed"),
]


@pytest.mark.parametrize("size", [0, 5, 300_000])
@pytest.mark.parametrize(("kind", "settings", "outcome"), OUTCOMES)
def test_what_a_fault_does_to_publishes_is_recorded(
    amqp: LocalProxy, channel: Channel, kind: str, settings: dict[str, Any], outcome: str, size: int
) -> None:
    """Each message is recorded as the client saw it, and so are those after the fault.

    Of what is refused at its method, the rest is not shown.
    """
    channel.confirm_delivery()

    def publish(*errors: type[Exception]) -> None:
        with suppress(*errors):
            channel.basic_publish("", "q", bytes(size), mandatory=True)

    publish()
    with amqp.fault(kind, match={"method": "basic.publish"}, **settings):
        publish(pika.exceptions.NackError, pika.exceptions.UnroutableError)
        publish(pika.exceptions.NackError, pika.exceptions.UnroutableError)
    publish()
    amqp.wait_for(count=4, type="publish")
    found = amqp.messages.where(type="publish")
    assert [(each.number, each.confirm_tag, each.outcome, each.size) for each in found] == [
        (1, 1, "confirmed", size),
        (2, 2, outcome, found[1].size),
        (3, 3, outcome, found[2].size),
        (4, 4, "confirmed", size),
    ]
    assert {found[1].size, found[2].size} <= ({size, None} if kind in ("nack", "drop") else {size})
    assert [each.code for each in found] == [None, *([312 if kind == "return" else None] * 2), None]
    assert amqp.messages.where(type="settle") == []


def test_who_many_clients_were(broker: LocalBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_memory_recorder, "MOST_CLIENTS", 1)
    with LocalProxy(broker.address) as proxy:
        for queue in ("one", "two"):
            with raw.Peer.opened(proxy.port, 1) as peer:
                peer.send(raw.queue_declare(1, queue))
                peer.expect(50, 11)
        proxy.wait_for("method == 'queue.declare'", count=2)
        assert len(proxy.messages.where("user == 'guest'", method="queue.declare")) == 1

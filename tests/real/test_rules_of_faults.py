"""Faults in front of RabbitMQ, with a real client that they happen to."""

from __future__ import annotations

import time
from typing import Any

import pika.exceptions
import pytest

from tests.real.pika_connection import connected
from tests.real.poll import until
from tests.real.proxy import Proxy, StartProxy
from tests.real.rabbitmq import RabbitMQ

pytestmark = [pytest.mark.real, pytest.mark.once]


@pytest.fixture
def faulty(start_proxy: StartProxy, rabbitmq: RabbitMQ) -> Any:
    """amqproxy in front of RabbitMQ with one fault; `when` is the rest of its rule."""

    def start(when: dict[str, Any] | None = None, **fault: Any) -> Proxy:
        return start_proxy(rabbitmq.port, rules=[{"name": "broken", "action": "fault", "fault": fault} | (when or {})])

    return start


def received(proxy: Proxy, published: int, *, auto_ack: bool = False) -> list[tuple[str, bool]]:
    """What a consumer gets of so many messages: bodies, and whether they were delivered before."""
    with connected(proxy) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        got: list[tuple[str, bool]] = []

        def take(_: Any, method: Any, __: Any, body: bytes) -> None:
            got.append((body.decode(), method.redelivered))
            if not auto_ack:
                channel.basic_ack(method.delivery_tag)

        channel.basic_consume(queue, take, auto_ack=auto_ack)
        for number in range(published):
            channel.basic_publish("", queue, str(number).encode())

        def all_came() -> bool:
            connection.process_data_events(0.05)
            return {body for body, _ in got} == {str(number) for number in range(published)}

        until(all_came, "all to come")
        connection.process_data_events(0.2)
        assert channel.queue_declare(queue, passive=True).method.message_count == 0
        return got


def test_the_next_two_are_nacked_and_the_third_is_there(faulty: Any) -> None:
    with connected(faulty({"count": 2}, kind="nack")) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        queue = channel.queue_declare("", exclusive=True).method.queue
        for _ in range(2):
            with pytest.raises(pika.exceptions.NackError):
                channel.basic_publish("", queue, b"x")
        for _ in range(3):
            channel.basic_publish("", queue, b"x")
        assert channel.queue_declare(queue, passive=True).method.message_count == 3


def test_one_comes_back(faulty: Any) -> None:
    with connected(faulty({"nth": 2}, kind="return")) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_publish("", queue, b"1", mandatory=True)
        with pytest.raises(pika.exceptions.UnroutableError) as unroutable:
            channel.basic_publish("", queue, b"2", mandatory=True)
        assert unroutable.value.messages[0].body == b"2"
        channel.basic_publish("", queue, b"3", mandatory=True)
        assert channel.queue_declare(queue, passive=True).method.message_count == 2


def test_one_is_dropped_and_its_sender_receives_the_given_reply(faulty: Any) -> None:
    with connected(faulty({"nth": 1, "match": {"method": "basic.publish"}}, kind="drop", told="ack")) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        queue = channel.queue_declare("", exclusive=True).method.queue
        for number in range(3):
            channel.basic_publish("", queue, str(number).encode())
        assert [channel.basic_get(queue, auto_ack=True)[2] for _ in range(3)] == [b"1", b"2", None]


def test_one_comes_twice(faulty: Any) -> None:
    when = {"nth": 2, "match": {"method": "basic.deliver"}}
    expected = [("0", False), ("1", False), ("1", True), ("2", False)]
    assert received(faulty(when, kind="duplicate"), 3) == expected


def test_one_is_published_twice(faulty: Any) -> None:
    when = {"nth": 2, "match": {"method": "basic.publish"}}
    assert [body for body, _ in received(faulty(when, kind="duplicate"), 3)] == ["0", "1", "1", "2"]


def test_one_is_overtaken(faulty: Any) -> None:
    got = received(faulty({"nth": 1}, kind="reorder", behind=2), 4, auto_ack=True)
    assert [body for body, _ in got] == ["1", "2", "0", "3"]


def test_a_lost_ack_leaves_the_message(faulty: Any) -> None:
    proxy = faulty({"nth": 1, "match": {"method": "basic.ack", "sender": "client"}}, kind="drop")
    with connected(proxy) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        for number in range(3):
            channel.basic_publish("", queue, str(number).encode())
        for _ in range(3):
            channel.basic_ack(channel.basic_get(queue)[0].delivery_tag)
        channel.close()
        channel = connection.channel()
        assert channel.basic_get(queue)[2] == b"0"
        assert channel.basic_get(queue)[2] is None


def test_a_declare_is_answered_with_406(faulty: Any) -> None:
    when = {"match": {"method": "queue.declare", "queue": "orders"}}
    with connected(faulty(when, kind="close", code=406, text="inequivalent arg 'durable'")) as connection:
        channel, other = connection.channel(), connection.channel()
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
            channel.queue_declare("orders")
        assert closed.value.args == (406, "PRECONDITION_FAILED - inequivalent arg 'durable'")
        other.queue_declare("", exclusive=True)
        connection.channel().queue_declare("", exclusive=True)


def test_the_connection_is_closed_at_the_third_publish(faulty: Any) -> None:
    when = {"nth": 3, "match": {"method": "basic.publish"}}
    proxy = faulty(when, kind="close", scope="connection", code=320, text="closed by an operator")
    with connected(proxy) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for _ in range(2):
            channel.basic_publish("amq.fanout", "", b"x")
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
            channel.basic_publish("amq.fanout", "", b"x")
        assert closed.value.args == (320, "CONNECTION_FORCED - closed by an operator")


def test_a_consumer_is_cancelled(faulty: Any) -> None:
    with connected(faulty({"nth": 2}, kind="cancel")) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        for number in range(20):
            channel.basic_publish("", queue, str(number).encode())
        cancelled: list[Any] = []
        got: list[bytes] = []
        channel.add_on_cancel_callback(cancelled.append)
        channel.basic_consume(queue, lambda *arguments: got.append(arguments[3]), auto_ack=False)

        def is_cancelled() -> bool:
            connection.process_data_events(0.05)
            return bool(cancelled)

        until(is_cancelled, "the consumer to be cancelled")
        connection.process_data_events(0.2)
        assert got == [b"0", b"1"]
        assert channel.queue_declare(queue, passive=True).method.message_count == 18
        assert channel.queue_declare(queue, passive=True).method.consumer_count == 0


def test_blocked_for_a_while(faulty: Any) -> None:
    with connected(faulty({"nth": 1, "match": {"method": "basic.publish"}}, kind="block", seconds=0.3)) as connection:
        seen: list[str] = []
        connection.add_on_connection_blocked_callback(lambda *_: seen.append("blocked"))
        connection.add_on_connection_unblocked_callback(lambda *_: seen.append("unblocked"))
        connection.channel().basic_publish("amq.fanout", "", b"x")

        def both() -> bool:
            connection.process_data_events(0.05)
            return seen == ["blocked", "unblocked"]

        until(both, "the client to receive both")


def test_a_corrupt_frame_ends_the_connection(faulty: Any) -> None:
    when = {"match": {"method": "queue.declare-ok"}}
    with (
        connected(faulty(when, kind="corrupt", place=0, mask=0x40)) as connection,
        pytest.raises(pika.exceptions.AMQPError),
    ):
        connection.channel().queue_declare("", exclusive=True)


def test_latency(faulty: Any) -> None:
    proxy = faulty(kind="latency", delay=0.1, to="client")
    start = time.monotonic()
    with connected(proxy) as connection:
        assert time.monotonic() - start > 0.3, "start, tune and open-ok were late"
        channel = connection.channel()
        seconds = []
        for _ in range(5):
            start = time.monotonic()
            channel.queue_declare("", exclusive=True)
            seconds.append(time.monotonic() - start)
        assert 0.1 <= min(seconds) < 2


def test_slices_and_a_thin_line(start_proxy: StartProxy, rabbitmq: RabbitMQ) -> None:
    faults = [{"kind": "slicing", "size": 7, "variation": 6}, {"kind": "bandwidth", "rate": "200kB"}]
    rules = [{"name": fault["kind"], "action": "fault", "fault": fault} for fault in faults]
    with connected(start_proxy(rabbitmq.port, rules=rules)) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        body = bytes(range(256)) * 30
        channel.basic_publish("", queue, body)
        assert channel.basic_get(queue, auto_ack=True)[2] == body


def test_silence_and_then_the_end(faulty: Any) -> None:
    when = {"match": {"method": "queue.declare"}}
    with connected(faulty(when, kind="timeout", close_after=0.3)) as connection:
        channel = connection.channel()
        start = time.monotonic()
        with pytest.raises(pika.exceptions.AMQPError):
            channel.queue_declare("", exclusive=True)
        assert time.monotonic() - start >= 0.3


@pytest.mark.parametrize("kind", ["reset", "limit_data", "half_close"])
def test_the_line_is_cut(faulty: Any, kind: str) -> None:
    keys = {"limit_data": {"octets": 700}, "half_close": {"to": "client"}}.get(kind, {"after": 0.3})
    proxy = faulty({} if "after" in keys else {"match": {"method": "queue.declare"}}, kind=kind, **keys)

    def talk() -> None:
        start = time.monotonic()
        with connected(proxy) as connection:
            channel = connection.channel()
            while time.monotonic() - start < 10:
                channel.queue_declare("", exclusive=True)

    with pytest.raises(pika.exceptions.AMQPError):
        talk()


def test_a_user_that_the_match_does_not_name_is_spared(faulty: Any) -> None:
    with connected(faulty({"match": {"user": "other"}}, kind="reset")) as connection:
        connection.channel().queue_declare("", exclusive=True)


def test_chance_is_the_same_for_the_same_seed(start_proxy: StartProxy, rabbitmq: RabbitMQ) -> None:
    def nacked(seed: int) -> list[bool]:
        rule = {"name": "broken", "action": "fault", "fault": {"kind": "nack"}, "probability": 0.5}
        found = []
        with connected(start_proxy(rabbitmq.port, rules=[rule], seed=seed)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            for _ in range(40):
                try:
                    channel.basic_publish("amq.fanout", "", b"x")
                    found.append(False)
                except pika.exceptions.NackError:
                    found.append(True)
        return found

    assert nacked(1) == nacked(1) != nacked(2)

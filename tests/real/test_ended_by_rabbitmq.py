"""What RabbitMQ ends is found with its cause: live, as in a recording of the proxy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from amqproxy.rabbitmq.profile import HEADER_0_9_1, HEADER_1_0_SASL
from tests.real.proxy import StartProxy
from tests.real.rabbitmq import RabbitMQ
from tests.real.raw import (
    PROTOCOL_HEADER,
    Peer,
    body,
    connection_close,
    connection_open,
    consume,
    deliver,
    header,
    longstr,
    message,
    method,
    publish,
    shortstr,
    start_ok,
    tune_ok,
)
from tests.real.reports import decoded, parsed

pytestmark = [pytest.mark.real, pytest.mark.once]

QUEUE = "tests.ended"
SETTINGS = {"consumer_timeout": 1000, "channel_tick_interval": 1000}
"""Milliseconds. RabbitMQ looks at each channel for deliveries that are too old at every tick."""


@pytest.fixture
def impatient(disposable_rabbitmq: RabbitMQ) -> RabbitMQ:
    """A node that gives consumers a second."""
    for name, value in SETTINGS.items():
        disposable_rabbitmq.ctl("eval", f"application:set_env(rabbit, {name}, {value}).")
    return disposable_rabbitmq


def closed_with(peer: Peer) -> int:
    """The code of the next close; RabbitMQ keeps the socket for 30 s after a close-ok."""
    close = next(found for each in peer.frames() if (found := each.close))
    peer.send(method(0, 10, 51) if close.channel == 0 else method(close.channel, 20, 41))
    return close.code


def delete_queue(port: int) -> None:
    with Peer.opened(port, 1) as peer:
        peer.send(method(1, 50, 40, b"\0\0" + shortstr(QUEUE) + b"\0"))
        peer.expect(50, 41)
        peer.send(connection_close())
        peer.expect(10, 51)


def unacked(port: int) -> None:
    """A consumer that settles nothing."""
    with Peer.opened(port, 1) as peer:
        peer.send(message(1, peer.declare(), b"x"), consume(1, "", no_ack=False))
        assert closed_with(peer) == 406
        peer.send(connection_close())
        peer.expect(10, 51)


def deleted(port: int) -> None:
    """A consumer whose queue another client deletes."""
    with Peer.opened(port, 1) as peer:
        peer.declare(name=QUEUE, exclusive=False)
        peer.send(consume(1, QUEUE))
        peer.expect(60, 21)
        delete_queue(port)
        peer.expect(60, 30)
        peer.send(connection_close())
        peer.expect(10, 51)


def deleted_untold(port: int) -> None:
    """A consumer whose client has no capabilities, and is told nothing."""
    with Peer.connect(port) as peer:
        peer.send(PROTOCOL_HEADER)
        peer.expect(10, 10)
        peer.send(start_ok(properties=b""))
        peer.expect(10, 30)
        peer.send(tune_ok(), connection_open())
        peer.expect(10, 41)
        peer.send(method(1, 20, 10, shortstr("")))
        peer.expect(20, 11)
        peer.declare(name=QUEUE, exclusive=False)
        peer.send(consume(1, QUEUE))
        peer.expect(60, 21)
        delete_queue(port)
        peer.send(connection_close())
        peer.expect(10, 51)


def two_threads(port: int) -> None:
    """A publish comes between the method and the header of another."""
    with Peer.opened(port, 1) as peer:
        peer.send(publish(1, "x"), publish(1, "x"))
        assert closed_with(peer) == 505


def wrong_password(port: int) -> None:
    """RabbitMQ gives no reason to a client without authentication_failure_close."""
    with Peer.connect(port) as peer:
        peer.send(PROTOCOL_HEADER)
        peer.expect(10, 10)
        peer.send(start_ok(password="no", properties=b""))
        assert peer.closed() is None


def large_header(port: int) -> None:
    """A content header above frame_max."""
    with Peer.opened(port, 1, frame_max=8192) as peer:
        table = longstr(shortstr("a") + b"S" + longstr(bytes(9000)))
        peer.send(publish(1, "x"), header(1, 0, flags=0x2000, properties=table))
        assert closed_with(peer) == 501


def unlimited_channels(port: int) -> None:
    """A tune-ok of no limit, where there is one."""
    with Peer.connect(port) as peer:
        peer.send(PROTOCOL_HEADER)
        peer.expect(10, 10)
        peer.send(start_ok())
        peer.expect(10, 30)
        peer.send(tune_ok(channel_max=0), connection_open())
        assert peer.closed() is None


def long_body(port: int) -> None:
    """A body that is longer than its header announced, and a method behind it."""
    with Peer.opened(port, 1) as peer:
        peer.send(publish(1, "x"), header(1, 3), body(1, b"12345"), body(1, b"6"))
        peer.send(publish(1, "x"))
        assert closed_with(peer) in (501, 505)


def speaks_0_10(port: int) -> None:
    """A client of AMQP 0-10, which RabbitMQ tells what it speaks."""
    with Peer.connect(port) as peer:
        peer.send(b"AMQP\1\1\0\x0a")
        assert peer.receive(9) in (HEADER_0_9_1, HEADER_1_0_SASL)


def servers_method(port: int) -> None:
    """A basic.deliver of the client."""
    with Peer.opened(port, 1) as peer:
        peer.send(deliver(1, b"x"))
        assert closed_with(peer) == 503


PROXY_KNOWS_MORE = frozenset({"tuning-refused"})
"""Kinds whose reason is not on the wire: RabbitMQ and the proxy only end the connection."""

Play = Callable[[int], None]
"""Takes the port of the broker."""

Found = Callable[[int, str, Play], list[str]]


@pytest.fixture
def found(start_proxy: StartProxy, tmp_path: Path) -> Found:
    """Play something straight and through a proxy; the texts of one kind that were found live, and in its recording."""

    def found(port: int, kind: str, play: Play) -> list[str]:
        play(port)
        records, recorded = tmp_path / "records", tmp_path / "recorded"
        proxy = start_proxy(port, "--findings", "--json", "--record", str(recorded), records=records)
        play(proxy.port)
        proxy.terminate()
        assert proxy.wait() == 0, proxy.log
        with records.open("rb") as file:
            live = [each["text"] for each in parsed(file.readlines()) if each.get("kind") == kind]
        (capture,) = recorded.iterdir()
        recorded_texts = [each["text"] for each in decoded(capture) if each.get("kind") == kind]
        assert len(recorded_texts) == len(live)
        if kind not in PROXY_KNOWS_MORE:
            assert recorded_texts == live
        return live

    return found


def test_an_acknowledgement_timeout_names_the_delivery(impatient: RabbitMQ, found: Found) -> None:
    if impatient.profile.quorum_consumer_timeout:
        pytest.skip("this RabbitMQ has the timeout for quorum queues alone, and cancels the consumer")
    (text,) = found(impatient.port, "ack-timeout", unacked)
    assert text.startswith("delivery 1 to consumer ")
    assert text.endswith(", beyond the timeout of 1 s")


def test_a_cancelled_consumer_is_linked_to_who_deleted_its_queue(rabbitmq: RabbitMQ, found: Found) -> None:
    (text,) = found(rabbitmq.port, "consumer-cancelled", deleted)
    assert f" of queue {QUEUE}: 127.0.0.1:" in text
    assert text.endswith("has deleted it")


def test_a_client_that_is_not_told_of_the_end_of_its_consumer(rabbitmq: RabbitMQ, found: Found) -> None:
    (text,) = found(rabbitmq.port, "consumer-cancelled", deleted_untold)
    assert text.endswith("the client is not told, since it lacks the capability consumer_cancel_notify")


def test_two_threads_on_one_channel(rabbitmq: RabbitMQ, found: Found) -> None:
    assert found(rabbitmq.port, "interleaved-content", two_threads) == [
        "505 UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead"
    ]


@pytest.mark.parametrize(
    ("play", "text"),
    [
        (long_body, "a body that was announced with 3 bytes is longer"),
        (servers_method, "basic.deliver from the client, which only a server sends"),
    ],
)
def test_content_that_rabbitmq_reads_in_silence(play: Play, text: str, rabbitmq: RabbitMQ, found: Found) -> None:
    assert found(rabbitmq.port, "unread-content", play) == [text]


def test_a_client_of_0_10_is_told_which_protocol_rabbitmq_speaks(rabbitmq: RabbitMQ, found: Found) -> None:
    its = {HEADER_0_9_1: "AMQP 0-9-1", HEADER_1_0_SASL: "AMQP 1.0 (SASL)"}[rabbitmq.profile.foreign_answer]
    assert found(rabbitmq.port, "foreign-server", speaks_0_10) == [f"the server speaks {its}, not AMQP 0-10"]


def test_a_login_that_is_refused_without_a_word(rabbitmq: RabbitMQ, found: Found) -> None:
    (text,) = found(rabbitmq.port, "login-refused", wrong_password)
    assert "the client lacks the capability authentication_failure_close" in text


def test_a_header_above_frame_max(rabbitmq: RabbitMQ, found: Found) -> None:
    (text,) = found(rabbitmq.port, "oversized-frame", large_header)
    assert text == "a content header frame of 9025 bytes, where 8184 is the most"


def test_limits_above_those_that_are_offered(rabbitmq: RabbitMQ, found: Found) -> None:
    """RabbitMQ resets the connection; the proxy says why."""
    (text,) = found(rabbitmq.port, "tuning-refused", unlimited_channels)
    assert text.startswith("530 NOT_ALLOWED: tune-ok takes channel_max 0, where the server offered 2047")

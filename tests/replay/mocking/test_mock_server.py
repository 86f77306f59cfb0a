"""A mock and its clients: those that do what was recorded, and those that do not."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pika
import pika.exceptions
import pytest
import trustme

from amqproxy.amqp010.protocol_header import HEADER as AMQP010_HEADER
from amqproxy.amqp091.frame import encode_method
from amqproxy.amqp091.methods import ChannelOpen, ConnectionOpen, ConnectionStartOk, ConnectionTuneOk, QueueDeclare
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.replay.mocking import mock_server
from amqproxy.replay.mocking.mock_connection import MockSettings
from tests.amqp010.recorded import FOLDER
from tests.real.poll import until
from tests.replay.mocking.local_mock import LocalMock, local_mock
from tests.replay.playing import CAPTURES, played, steps_in, texts

PLAYED = ["blocked", "channel-error", "confirms", "consume-large", "heartbeats", "kombu-table", "login-refused"]
PLAYED += ["publish-get-ack", "transactions", "every-type"]
CONFIRMS = CAPTURES / "confirms.pcapng"
AMQP010_TX = FOLDER / "brokerj9.2__jms-010-tx.pcapng.gz"
DEADLINE = 10.0


@pytest.mark.parametrize("name", PLAYED)
def test_what_was_recorded_is_answered_as_it_was(name: str) -> None:
    """The recording's own client, played by replay, finds nothing that differs, and neither does the mock."""
    (capture,) = [each for each in CAPTURES.glob(f"{name}.pcapng*") if each.name.startswith(f"{name}.pcapng")]
    with local_mock(capture) as mock:
        result = played(steps_in(capture), f"amqp://guest:guest@127.0.0.1:{mock.port}")
        assert texts(result) == []
        assert result.is_same
        until(lambda: bool(mock.reports), "the report")
    assert [each.differences for each in mock.reports] == [[]] * len(mock.reports)
    assert [each.unanswered for each in mock.reports] == [[]] * len(mock.reports)


@contextmanager
def connected(mock: LocalMock, **options: object) -> Iterator[pika.BlockingConnection]:
    parameters = pika.ConnectionParameters("127.0.0.1", mock.port, socket_timeout=DEADLINE, **options)  # type: ignore[arg-type]
    connection = pika.BlockingConnection(parameters)
    try:
        yield connection
    finally:
        if connection.is_open:
            connection.close()


def test_what_has_no_answer_closes_the_channel() -> None:
    with local_mock(CONFIRMS, is_loop=True) as mock:
        with connected(mock) as connection:
            channel = connection.channel()
            with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
                channel.queue_bind("other", "amq.direct", "k")
            assert closed.value.reply_code == 540
            text = "the recording has no queue.bind queue=other exchange=amq.direct routing_key=k here"
            assert closed.value.reply_text == f"NOT_IMPLEMENTED - {text}"
            other = connection.channel()
            assert other.queue_declare("", exclusive=True).method.queue.startswith("amq.gen-")
        until(lambda: bool(mock.reports), "the report")
    report = mock.reports[0]
    assert report.differences[0].what == "queue.bind queue=other exchange=amq.direct routing_key=k"
    assert report.unanswered == [text]
    assert {each.kind for each in report.differences} == {"extra", "missing", "changed"}


def test_strict_closes_the_connection() -> None:
    with local_mock(CONFIRMS, settings=MockSettings(speed=0, is_strict=True)) as mock, connected(mock) as connection:
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
            connection.channel().queue_purge("other")
        assert closed.value.reply_code == 540


def test_a_connection_is_played_once_or_in_a_loop() -> None:
    with local_mock(CONFIRMS) as mock:
        with connected(mock):
            pass
        with pytest.raises(pika.exceptions.AMQPConnectionError, match=r"540.*no connection of user 'guest'"):
            pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", mock.port))
    with local_mock(CONFIRMS, is_loop=True) as mock:
        for _ in range(3):
            with connected(mock) as connection:
                connection.channel()


def test_who_may_log_in() -> None:
    with local_mock(CONFIRMS, settings=MockSettings(speed=0, user=("me", "secret"))) as mock:
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", mock.port))
        with connected(mock, credentials=pika.PlainCredentials("me", "secret")) as connection:
            assert connection.is_open


def test_over_tls() -> None:
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    with local_mock(CONFIRMS, context=context) as mock:
        options = pika.SSLOptions(trusting, "localhost")
        with connected(mock, ssl_options=options) as connection:
            assert connection.channel().queue_declare("", exclusive=True).method.queue


def test_what_was_published_now_is_delivered() -> None:
    with local_mock(CAPTURES / "publish-get-ack.pcapng") as mock:
        with connected(mock) as connection:
            channel = connection.channel()
            channel.exchange_declare("orders", "topic", auto_delete=True)
            queue = channel.queue_declare("", exclusive=True).method.queue
            channel.queue_bind(queue, "orders", "orders.*.new")
            channel.basic_publish("orders", "orders.eu.new", b"another", pika.BasicProperties(app_id="another"))
            _, properties, body = channel.basic_get(queue)
            assert (properties.app_id, body) == ("another", b"another")
        until(lambda: bool(mock.reports), "the report")
    changed = [each for each in mock.reports[0].differences if each.kind == "changed" and each.type == "publish"]
    assert "body" in {each.field for each in changed[0].changes}


# --- hostile clients


@pytest.mark.parametrize(
    ("recordings", "sent", "answer"),
    [
        ([CONFIRMS], b"GET / HTTP/1.1\r\n\r\n", HEADER),
        ([CONFIRMS], AMQP010_HEADER, HEADER),
        ([AMQP010_TX], HEADER, AMQP010_HEADER),
        ([AMQP010_TX], b"AMQP\x00\x01\x00\x00", AMQP010_HEADER),
        ([AMQP010_TX, CONFIRMS], b"AMQP\x00\x01\x00\x00", HEADER),
    ],
    ids=["HTTP", "0-10", "0-9-1", "1.0", "1.0 for both"],
)
def test_a_client_that_speaks_something_else(recordings: list[Path], sent: bytes, answer: bytes) -> None:
    with local_mock(*recordings) as mock, socket.create_connection(("127.0.0.1", mock.port), DEADLINE) as client:
        client.sendall(sent)
        assert client.recv(100) == answer
        assert client.recv(100) == b""
    assert mock.reports == []


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        HEADER[:4],
        HEADER,
        HEADER + bytes(100),
        HEADER + b"\x01\0\0\0\0\0\x05hello\xce",
        HEADER + b"\x01\0\0\xff\xff\xff\xff",
        HEADER + b"\x03\0\x01\0\0\0\x05hello\xce" * 100,
    ],
)
@pytest.mark.parametrize("is_reset", [False, True])
def test_a_client_that_breaks_off(sent: bytes, is_reset: bool) -> None:
    with local_mock(CONFIRMS) as mock:
        with socket.create_connection(("127.0.0.1", mock.port), DEADLINE) as client:
            if is_reset:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.sendall(sent)
        with connected(mock) as connection:  # others are served on
            assert connection.channel().queue_declare("", exclusive=True).method.queue


def test_many_clients_at_once() -> None:
    with local_mock(CONFIRMS, is_loop=True) as mock:
        idle = [socket.create_connection(("127.0.0.1", mock.port), DEADLINE) for _ in range(300)]
        for client in idle:
            client.sendall(HEADER)
        with connected(mock) as connection:
            assert connection.channel().queue_declare("", exclusive=True).method.queue
        for client in idle:
            assert client.recv(1) == b"\x01"
            client.close()


def test_a_client_that_never_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it asks for is not answered without end, nor is it waited for."""
    monkeypatch.setattr(mock_server, "MAX_UNSENT", 100_000)
    monkeypatch.setattr(mock_server, "SEND_TIME", 0.2)
    login = (ConnectionStartOk(response=b"\0guest\0guest"), ConnectionTuneOk(2047, 131_072, 0), ConnectionOpen())
    asked = encode_method(1, QueueDeclare(exclusive=True)) * 1000

    def ask_on(client: socket.socket) -> None:
        while True:
            client.sendall(asked)

    with local_mock(CONFIRMS) as mock, socket.create_connection(("127.0.0.1", mock.port), DEADLINE) as client:
        client.sendall(
            HEADER + b"".join(encode_method(0, method) for method in login) + encode_method(1, ChannelOpen())
        )
        with pytest.raises(OSError, match=r"reset|Broken pipe"):
            ask_on(client)

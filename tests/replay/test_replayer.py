"""Captures are played against a broker as they were recorded, and what differs is reported."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from amqproxy.amqp091.frame import encode_method
from amqproxy.amqp091.methods import ConnectionStart
from amqproxy.amqp091.wire import Table
from amqproxy.comparison.difference import DifferenceKind
from amqproxy.replay.replay_copy import Order
from amqproxy.replay.replayer import DialFailed
from tests.replay.playing import CAPTURES, WHOLE, broker, played, replayed_and_recorded, steps_in, texts


@pytest.mark.parametrize("name", WHOLE)
def test_what_rabbitmq_answered_is_answered_again(name: str) -> None:
    """Errors of clients are the same errors again; and a recording of that has the same commands, tags aside."""
    with broker() as url:
        result, differences = replayed_and_recorded(CAPTURES / name, url)
    assert texts(result) == []
    assert result.is_same
    assert differences == []
    assert result.sent > 0
    assert result.answers > 0


def test_copies_do_not_meet() -> None:
    with broker() as url:
        result = played(steps_in(CAPTURES / "publish-get-ack.pcapng"), url, clients=8)
        assert texts(result) == []
        assert result.connections == 8


@pytest.mark.parametrize("name", [path.name for path in sorted(CAPTURES.glob("*.*.pcapng"))])
def test_what_is_damaged_is_played_as_far_as_it_goes(name: str) -> None:
    """No nonsense is sent: a broker finds a mistake only where the recorded client has made one."""
    with broker() as url:
        result = played(steps_in(CAPTURES / name), url, timeout=0.5)
    closed = [each.what for each in result.differences if each.method == "connection.close"]
    assert "broken" in name or closed == []


def test_an_order_of_each_connection_alone_is_kept_too() -> None:
    with broker() as url:
        result = played(steps_in(CAPTURES / "confirms.ports-reused.pcapng"), url, order=Order.CONNECTION)
    assert texts(result) == []


# --- brokers that fail

START = encode_method(0, ConnectionStart(0, 9, Table(), b"PLAIN", b"en_US"))


@contextmanager
def serving(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that does this with each connection, until the end of the `with` block."""
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            serve(client)
            held.append(client)

    held: list[socket.socket] = []
    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"amqp://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)
        for each in held:
            each.close()


def test_a_broker_that_never_answers_is_given_up() -> None:
    with serving(lambda client: None) as url:
        result = played(steps_in(CAPTURES / "confirms.pcapng"), url, timeout=0.2)
    assert result.differences[0].what == "connection.start: it did not come"
    assert any("not answered" in each.what for each in result.differences)
    assert {each.method for each in result.not_played} >= {"channel.open", "basic.publish"}


def test_a_broker_that_closes_midway_is_reported() -> None:
    def serve(client: socket.socket) -> None:
        client.recv(8)
        client.sendall(START)
        client.recv(1000)
        client.close()

    with serving(serve) as url:
        result = played(steps_in(CAPTURES / "confirms.pcapng"), url, timeout=5)
    assert not result.is_same
    assert any(each.kind is DifferenceKind.EXTRA and "connection" in each.what for each in result.differences)


def test_what_comes_behind_the_end_of_the_live_connection_is_not_waited_for() -> None:
    """The recording goes on for 2.5 seconds, which are a quarter of an hour here."""

    def serve(client: socket.socket) -> None:
        client.recv(8)
        client.close()

    with serving(serve) as url:
        result = played(steps_in(CAPTURES / "heartbeats.pcapng"), url, speed=2.5 / 900)
    assert not result.is_same
    assert {each.method for each in result.not_played} >= {"connection.open"}


def test_a_broker_that_sends_rubbish_is_reported() -> None:
    def serve(client: socket.socket) -> None:
        client.recv(8)
        client.sendall(START + b"\x09rubbish that is no frame")

    with serving(serve) as url:
        result = played(steps_in(CAPTURES / "confirms.pcapng"), url, timeout=5)
    assert any("no frame" in each.what for each in result.differences)


def test_a_broker_that_is_not_there_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(DialFailed, match="refused"):
        played(steps_in(CAPTURES / "confirms.pcapng"), f"amqp://127.0.0.1:{port}")


def test_a_capture_without_amqp_is_nothing_to_play(tmp_path: Path) -> None:
    assert played(iter(()), "amqp://127.0.0.1:1").is_same

"""A server and hostile clients of its port, in sockets of their own; a well-behaved client beside notices nothing."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from urllib.request import urlopen

import pytest
import uvicorn

from amqproxy.dashboard import server
from amqproxy.dashboard.settings import Settings
from amqproxy.web import peers, protocols
from tests.dashboard.conftest import CAPTURES
from tests.real.poll import until

pytestmark = pytest.mark.once

HOST = "127.0.0.1"
HOSTILE = "127.0.0.2"


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Where a dashboard of a capture listens; it looks often, and is impatient."""
    monkeypatch.setattr(peers, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(peers, "REQUEST_SECONDS", 0.5)
    with socket.create_server((HOST, 0)) as listener:
        running = uvicorn.Server(server._config(Settings(captures=(CAPTURES / "confirms.pcapng",))))
        thread = threading.Thread(target=running.run, args=([listener],))
        thread.start()
        try:
            number = listener.getsockname()[1]
            until(lambda: running.started, "the server to begin")
            yield number
        finally:
            running.should_exit = True
            thread.join(30)


def hostile(port: int, data: bytes = b"") -> socket.socket:
    opened = socket.create_connection((HOST, port), timeout=30, source_address=(HOSTILE, 0))
    opened.sendall(data)
    return opened


def is_answered(port: int) -> bool:
    """Is a well-behaved client served?"""
    with urlopen(f"http://{HOST}:{port}/api/v1/sources/0/frames?limit=5", timeout=30) as answer:
        return len(json.load(answer)["rows"]) == 5


def is_ended(connection: socket.socket) -> bool:
    try:
        return not connection.recv(65_536)
    except ConnectionResetError:
        return True


def websocket(port: int) -> socket.socket:
    opened = hostile(
        port,
        b"GET /api/v1/live HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    )
    assert b" 101 " in opened.recv(4096).splitlines()[0]
    return opened


@pytest.mark.parametrize("half", [b"", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"])
def test_half_a_request_is_ended_in_time(port: int, half: bytes) -> None:
    with closing(hostile(port, half)) as slow:
        assert is_answered(port)
        assert is_ended(slow)


def test_one_address_has_not_all_connections(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "REQUEST_SECONDS", 60.0)
    monkeypatch.setattr(peers, "MAX_OF_ONE", 5)
    opened = [hostile(port) for _ in range(5)]
    with closing(hostile(port)) as one_more:
        assert is_ended(one_more)
    assert is_answered(port)
    for each in opened:
        each.close()


def test_pings_that_are_never_read_the_answers_to_have_an_end(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocols, "MAX_UNSENT", 1 << 20)
    pings = (b"\x89\xfd\0\0\0\0" + b"x" * 125) * 500
    with closing(websocket(port)) as flooding:
        flooding.settimeout(0.5)
        with pytest.raises((ConnectionError, TimeoutError)):
            flooding.sendall(pings * 3000)
    assert is_answered(port)


def test_a_flood_of_rubbish_leaves_others_their_turn(port: int) -> None:
    with closing(websocket(port)) as flooding:
        flooding.settimeout(0.2)
        with pytest.raises((ConnectionError, TimeoutError)):  # it is read slowly
            flooding.sendall(b"\x81\x82\0\0\0\0{}" * 4_000_000)
        assert is_answered(port)

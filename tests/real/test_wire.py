"""The recorder and the comparison: a proxy that changed a byte would be caught."""

import socket

import pytest

from tests.real.poll import until
from tests.real.raw import listening
from tests.real.wire import Recorded, Recorder, assert_identical


def recorded(to_server: bytes, to_client: bytes) -> Recorded:
    made = Recorded()
    made.to_server += to_server
    made.to_client += to_client
    return made


def test_order_of_connections_does_not_matter() -> None:
    assert_identical([recorded(b"a", b"b"), recorded(b"c", b"d")], [recorded(b"c", b"d"), recorded(b"a", b"b")])


@pytest.mark.parametrize(
    ("outside", "inside", "difference"),
    [
        (
            [recorded(b"abc", b"")],
            [recorded(b"abd", b"")],
            "client to server: 3 bytes sent, 3 received, the first .* 2",
        ),
        (
            [recorded(b"", b"ab")],
            [recorded(b"", b"abc")],
            "server to client: 3 bytes sent, 2 received, the first .* 2",
        ),
        ([recorded(b"a", b"b")] * 2, [recorded(b"a", b"b")], "2 connections outside, 1 inside"),
        ([recorded(b"a", b"b")], [recorded(b"b", b"a")], "client to server"),
    ],
)
def test_a_change_is_reported(outside: list[Recorded], inside: list[Recorded], difference: str) -> None:
    with pytest.raises(AssertionError, match=difference):
        assert_identical(outside, inside)


def test_what_passes_is_recorded() -> None:
    with listening() as listener, Recorder(listener.getsockname()[1]) as recorder:
        with socket.create_connection(("127.0.0.1", recorder.port)) as client, listener.accept()[0] as server:
            client.sendall(b"question")
            assert server.recv(100) == b"question"
            client.shutdown(socket.SHUT_WR)
            assert server.recv(100) == b""
            server.sendall(b"answer")
            assert client.recv(100) == b"answer"
        assert [each.streams for each in recorder.take()] == [(b"question", b"answer")]
        assert recorder.take() == []


def test_a_reset_passes_through() -> None:
    with listening() as listener, Recorder(listener.getsockname()[1]) as recorder:
        with socket.create_connection(("127.0.0.1", recorder.port)) as client, listener.accept()[0] as server:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            client.close()
            with pytest.raises(ConnectionResetError):
                until(lambda: server.recv(100), "the reset")
        recorder.take()

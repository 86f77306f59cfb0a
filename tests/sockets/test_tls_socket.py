"""A TLS socket behaves like a plain one: what it sends is received, however it is cut, and whenever it would block."""

import socket
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.sockets.tls_socket import RECORD, TlsSocket
from tests.example_count import example_count
from tests.sockets.tls_pair import tls_pair


def received(sock: TlsSocket) -> bytes:
    """All that can be received now."""
    found = b""
    with suppress(BlockingIOError):
        while data := sock.recv(100_000):
            found += data
    return found


@settings(max_examples=example_count(50), deadline=None)
@given(st.lists(st.tuples(st.integers(1, 70_000), st.integers(1, 9), st.booleans()), min_size=1, max_size=30))
def test_a_refused_send_is_continued_with_any_number_of_bytes(steps: list[tuple[int, int, bool]]) -> None:
    """In pieces, with fewer bytes than in the refused attempt, while the peer reads only now and then."""
    ours, theirs = tls_pair()
    with ours, theirs:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 10_000)
        data = bytes(range(256)) * 4_000
        sent, arrived = 0, b""
        for size, pieces, reads in steps * 4:
            some = data[sent : sent + size]
            cut = max(1, len(some) // pieces)
            with suppress(BlockingIOError):
                sent += ours.sendmsg([some[at : at + cut] for at in range(0, len(some), cut)])
            if reads:
                arrived += received(theirs)
        arrived += received(theirs)
        while sent < len(data):
            with suppress(BlockingIOError):
                sent += ours.send(data[sent : sent + 3_000])
            arrived += received(theirs)
        assert arrived == data


def test_other_bytes_do_not_go_before_encrypted_ones() -> None:
    ours, theirs = tls_pair()
    with ours, theirs:
        data = bytes(10_000_000)
        sent = ours.send(data)
        assert 0 < sent < len(data)
        for _ in range(3):
            with pytest.raises(BlockingIOError):
                ours.send(b"x")
        arrived = received(theirs)
        with pytest.raises(BlockingIOError):
            ours.send(b"x")
        ours.send(data[sent:])
        assert set(arrived + received(theirs)) == {0}


def test_a_half_is_closed_alone() -> None:
    ours, theirs = tls_pair()
    with ours, theirs:
        ours.send(b"last words")
        ours.shutdown(socket.SHUT_WR)
        assert theirs.recv(100) == b"last words"
        assert theirs.recv(100) == b""
        assert theirs.recv(100) == b""
        theirs.send(bytes(3 * RECORD) + b"the end")
        assert received(ours) == bytes(3 * RECORD) + b"the end"
        theirs.shutdown(socket.SHUT_WR)
        assert ours.recv(100) == b""


def test_a_peer_that_closes_without_close_notify_has_closed() -> None:
    ours, theirs = tls_pair()
    with ours, theirs:
        theirs.send(b"last words")
        socket.socket.shutdown(theirs, socket.SHUT_WR)
        assert ours.recv(100) == b"last words"
        assert ours.recv(100) == b""
        assert ours.recv(100) == b""
        ours.send(b"still open")
        assert theirs.recv(100) == b"still open"


def test_an_error_after_received_bytes_is_raised_by_the_next_call() -> None:
    ours, theirs = tls_pair()
    with ours, theirs:
        theirs.send(b"good")
        socket.socket.send(theirs, b"\x17\x03\x03\x00\x20" + bytes(32))
        assert ours.recv(100) == b"good"
        for _ in range(2):
            with pytest.raises(OSError, match=r"(?i)bad record|decryption"):
                ours.recv(100)

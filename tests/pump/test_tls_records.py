"""TLS in a pump: bytes that OpenSSL holds back, errors, and ends."""

from __future__ import annotations

import _ssl
import ctypes
import socket
import ssl

import pytest

from amqproxy.pump.return_reasons import ENDED, GONE
from amqproxy.pump.tls_records import bound_reads, is_available
from amqproxy.sockets.tls_socket import TlsSocket
from amqproxy.sockets.transport import END, SocketTransport, TransportBroken
from tests.pump.rig import DEADLINE, PUBLISH, Wire, is_readable, pump, settle
from tests.sockets.tls_pair import tls_pair
from tests.transcripts.words import octets, words

pytestmark = pytest.mark.skipif(not is_available(), reason="needs compiled pumps, and an OpenSSL that is a library")


def send_key_update(sock: socket.socket) -> None:
    """Send a TLS 1.3 KeyUpdate; Python has no function for it."""
    assert isinstance(sock, TlsSocket)
    openssl = ctypes.CDLL(_ssl.__file__)
    place = id(sock._sslobj) + object.__basicsize__ + ctypes.sizeof(ctypes.c_void_p)  # as in `tls_records.pxd`
    connection = ctypes.c_void_p.from_address(place)
    assert openssl.SSL_key_update(connection, 0) == 1
    assert openssl.SSL_do_handshake(connection) == 1


def test_bytes_that_openssl_has_already_are_relayed() -> None:
    """The kernel has none of them any more, so that epoll reports nothing."""
    wire = Wire(pump(), tls=(True, True))
    for _ in range(3):
        wire.client.send(octets(PUBLISH))
    some = wire.sockets[0].recv(10)  # the first record is decrypted, and the rest of it stays with OpenSSL
    wire.readers[0].feed(some)
    wire.hand_over()
    wire.settle()
    assert bytes(wire.seen[1]) == octets(PUBLISH) * 3
    wire.close()


def test_a_record_that_was_changed_on_its_way_ends_the_connection() -> None:
    wire = Wire(pump(), tls=(True, False))
    lease = wire.hand_over()
    wire.client.send(octets(PUBLISH))
    socket.socket.send(wire.client, b"\x17\x03\x03\x00\x20" + bytes(32))
    settle(wire.pump)
    assert words(wire.server.recv(1000)) == PUBLISH
    assert lease.reason == GONE
    assert lease.error(0) == 71  # EPROTO
    wire.close()


def test_an_error_of_one_connection_is_not_seen_by_another_of_the_same_thread() -> None:
    """OpenSSL has one queue of errors for each thread, and Python looks into it when a read would block."""
    wire = Wire(pump(), tls=(True, False))
    ours, theirs = tls_pair()
    lease = wire.hand_over()
    socket.socket.send(wire.client, b"\x17\x03\x03\x00\x20" + bytes(32))
    settle(wire.pump)
    assert lease.reason == GONE
    with pytest.raises(BlockingIOError):
        ours.recv(100)
    theirs.send(b"still there")
    assert ours.recv(100) == b"still there"
    ours.close()
    theirs.close()
    wire.close()


def test_records_without_data_do_not_keep_a_pump_from_other_connections() -> None:
    taker = pump()
    flooded, other = Wire(taker, tls=(True, False), tcp=True), Wire(taker, tls=(True, True), tcp=True)
    for wire in (flooded, other):
        wire.hand_over()
        wire.settle()
    for _ in range(3000):
        send_key_update(flooded.client)
    flooded.client.send(octets(PUBLISH))
    other.client.send(octets(PUBLISH))
    is_readable(taker.descriptor, DEADLINE)
    taker.turn()
    flooded.look()
    assert bytes(flooded.seen[1]) == b"", "OpenSSL takes at most a record's size at a time"
    other.settle()
    assert bytes(other.seen[1]) == octets(PUBLISH)
    flooded.settle()
    assert bytes(flooded.seen[1]) == octets(PUBLISH)
    assert not taker.has_unfinished
    flooded.close()
    other.close()


async def test_records_without_data_do_not_keep_the_event_loop_from_other_connections() -> None:
    ours, theirs = tls_pair()
    bound_reads(ours)
    for _ in range(100):
        send_key_update(theirs)
    theirs.send(b"data")
    for _ in range(3):
        with pytest.raises(BlockingIOError):
            ours.recv(100)
    transport = SocketTransport(ours)
    assert await transport.receive() == b"data"
    await transport.aclose()
    theirs.close()


async def test_the_end_and_errors_are_there_for_the_session() -> None:
    for error, outcome in ((END, b""), (71, None)):
        ours, theirs = tls_pair()
        transport = SocketTransport(ours)
        assert transport.lend() is not None
        transport.take_back(b"rest", b"", error)
        assert await transport.receive() == b"rest"
        if outcome is None:
            with pytest.raises(TransportBroken, match="protocol error"):
                await transport.receive()
        else:
            assert await transport.receive() == outcome
        await transport.aclose()
        theirs.close()


def test_close_notify_ends_a_half() -> None:
    wire = Wire(pump(), tls=(True, True))
    lease = wire.hand_over()
    wire.client.send(octets(PUBLISH))
    wire.client.shutdown(socket.SHUT_WR)
    wire.settle()
    assert words(bytes(wire.seen[1])) == PUBLISH
    assert lease.reason == ENDED
    assert wire.sockets[0].recv(10) == b""
    wire.close()


def test_a_socket_without_a_connection_is_refused() -> None:
    wire = Wire(pump(), tls=(True, False))
    lease = wire.lease_of((wire.sockets[0].fileno(), wire.sockets[1].fileno()))
    closed, other = tls_pair()
    closed.close()
    for sock in (closed, wire.sockets[1]):
        with pytest.raises((ValueError, AttributeError)):
            lease.use_tls(0, sock)  # type: ignore[arg-type]
    other.close()
    wire.close()


def test_a_session_does_not_lend_what_is_over() -> None:
    ours, theirs = tls_pair()
    theirs.send(b"x")
    theirs.shutdown(socket.SHUT_WR)
    assert ours.recv(100) == b"x"
    transport = SocketTransport(ours)
    assert transport.lend() is None, "the end has been read, and only this side knows of it"
    ours.close()
    theirs.close()


def test_renegotiation_is_refused() -> None:
    ours, theirs = tls_pair()
    assert ours.context.options & ssl.OP_NO_RENEGOTIATION
    assert theirs.context.options & ssl.OP_NO_RENEGOTIATION
    ours.close()
    theirs.close()
    settle(pump())

"""Received PROXY headers: both versions, in pieces, and everything that is none."""

import socket
import struct

import pytest
import trio
from hypothesis import example, given
from hypothesis import strategies as st

from amqproxy.sockets.proxy_header import BadProxyHeader, ProxyHeader, header_size, parse, receive_header
from amqproxy.sockets.proxy_protocol import SIGNATURE, header
from tests.proxy.stage import connected

ENDS = ("10.1.2.3", 40000), ("192.168.0.1", 5672)


def v2(kind: int, family: int, rest: bytes) -> bytes:
    return SIGNATURE + struct.pack(">BBH", kind, family, len(rest)) + rest


def field(number: int, value: bytes) -> bytes:
    return struct.pack(">BH", number, len(value)) + value


ADDRESSES = bytes.fromhex("0a010203c0a800019c401628")
NAME = field(0x22, b"orders") + field(0x21, b"TLSv1.3")
CASES = [
    (b"PROXY TCP4 10.1.2.3 192.168.0.1 40000 5672\r\n", ProxyHeader(ENDS)),
    (b"PROXY TCP6 ::1 fe80::1 1 65535\r\n", ProxyHeader((("::1", 1), ("fe80::1", 65535)))),
    (b"PROXY UNKNOWN\r\n", ProxyHeader()),
    (b"PROXY UNKNOWN ffff::1 ffff::1 1 1\r\n", ProxyHeader()),
    (header(*ENDS), ProxyHeader(ENDS)),
    (header(("::1", 1), ("fe80::1", 65535)), ProxyHeader((("::1", 1), ("fe80::1", 65535)))),
    (v2(0x20, 0, b""), ProxyHeader()),
    (v2(0x20, 0x11, ADDRESSES), ProxyHeader()),
    (v2(0x21, 0x31, bytes(216)), ProxyHeader()),
    (v2(0x21, 0x12, ADDRESSES), ProxyHeader()),
    (v2(0x21, 0x11, ADDRESSES + field(2, b"mq.example")), ProxyHeader(ENDS, "mq.example")),
    (v2(0x21, 0x11, ADDRESSES + field(0x20, b"\7\0\0\0\0" + NAME)), ProxyHeader(ENDS, "", "CN=orders")),
    (
        v2(0x21, 0x11, ADDRESSES + field(0x20, b"\7\0\0\0\0" + field(0x22, b"orders,O=acme"))),
        ProxyHeader(ENDS, "", "CN=orders\\,O=acme"),
    ),
    (v2(0x21, 0x11, ADDRESSES + field(0x20, b"\7\0\0\0\1" + NAME)), ProxyHeader(ENDS)),
    (v2(0x21, 0x11, ADDRESSES + field(0x20, b"\1\0\0\0\0" + NAME)), ProxyHeader(ENDS)),
    (v2(0x21, 0x11, ADDRESSES + field(0xE0, bytes(60_000)) + field(4, b"")), ProxyHeader(ENDS)),
]
BAD = [
    b"PROXY\r\n",
    b"PROXY TCP4 10.1.2.3 192.168.0.1 40000\r\n",
    b"PROXY TCP4 10.1.2.300 192.168.0.1 40000 5672\r\n",
    b"PROXY TCP4 10.1.2.3 192.168.0.1 40000 65536\r\n",
    b"PROXY TCP4 10.1.2.3 192.168.0.1 +1 1\r\n",
    b"PROXY TCP6 10.1.2.3 192.168.0.1 1 1\r\n",
    b"PROXY UDP4 10.1.2.3 192.168.0.1 1 1\r\n",
    b"PROXY TCP4 \xff 192.168.0.1 1 1\r\n",
    b"PROXY " + bytes(200),
    b"POST / HTTP/1.1\r\n",
    b"\r\n\r\n\0\r\nQUIX\n" + bytes(4),
    v2(0x11, 0x11, ADDRESSES),
    v2(0x22, 0x11, ADDRESSES),
    v2(0x21, 0x11, ADDRESSES[:-1]),
    v2(0x21, 0x21, ADDRESSES),
    v2(0x21, 0x11, ADDRESSES + b"\2\0"),
    v2(0x21, 0x11, ADDRESSES + b"\2\0\5abcd"),
    v2(0x21, 0x11, ADDRESSES + field(0x20, b"\7\0")),
    v2(0x21, 0x11, ADDRESSES + field(2, b"\xff")),
]


async def received(data: bytes, cut: int) -> tuple[ProxyHeader | None, bytes]:
    """Send `data` in pieces; return the header that is received, and the bytes behind it."""
    ours, theirs = connected()
    sock = trio.socket.from_stdlib_socket(ours)
    problem: BadProxyHeader | None = None
    found, rest = None, b""
    with theirs:
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def send() -> None:
                for at in range(0, len(data), cut):
                    theirs.send(data[at : at + cut])
                    await trio.testing.wait_all_tasks_blocked()
                theirs.shutdown(socket.SHUT_WR)

            with trio.fail_after(5):
                try:
                    found = await receive_header(sock)
                    while more := await sock.recv(100_000):
                        rest += more
                except BadProxyHeader as error:
                    problem = error
                finally:
                    nursery.cancel_scope.cancel()
                    sock.close()
    if problem is not None:
        raise problem
    return found, rest


@pytest.mark.parametrize("cut", [1, 16, 100_000])
@pytest.mark.parametrize(("data", "expected"), CASES)
async def test_a_header_and_not_a_byte_more(data: bytes, expected: ProxyHeader, cut: int) -> None:
    cut = max(cut, len(data) // 300)
    assert await received(data + b"AMQP\0\0\x09\1\r\n", cut) == (expected, b"AMQP\0\0\x09\1\r\n")


@pytest.mark.parametrize("data", [b"AMQP\0\0\x09\1", b"\x16\x03\x01\x02\x00"])
async def test_who_begins_otherwise_keeps_all_bytes(data: bytes) -> None:
    assert await received(data, 100) == (None, data)


@pytest.mark.parametrize("data", BAD)
async def test_what_is_wrong_is_refused(data: bytes) -> None:
    with pytest.raises(BadProxyHeader) as refused:
        await received(data, 1000)
    assert not refused.value.is_probe


async def test_the_end_within_a_header() -> None:
    for data, is_probe in ((b"", True), (b"PROXY TCP4", False), (SIGNATURE, False)):
        with pytest.raises(BadProxyHeader, match="closed before") as refused:
            await received(data, 100)
        assert refused.value.is_probe == is_probe


@given(st.binary(max_size=300))
@example(b"PROXY TCP4 1.1.1.1 1.1.1.1 \xb2 1\r\n")
def test_no_other_error(rest: bytes) -> None:
    for start in (b"", b"PROXY ", b"PROXY TCP4 ", SIGNATURE, SIGNATURE + b"\x21\x11\0\x30", SIGNATURE + b"\x21\x21"):
        data = start + rest
        try:
            size = header_size(data)
            if size is not None and size <= len(data):
                parse(data[:size])
        except BadProxyHeader:
            pass

"""Bytes over a plain socket and over TLS."""

import errno
import socket
import ssl
import struct
from collections.abc import Callable
from contextlib import suppress

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from amqproxy.sockets.transport import (
    LEAST_READ,
    MOST_PIECES,
    MOST_READ,
    TURN,
    SocketTransport,
    Transport,
    TransportBroken,
)
from tests.example_count import example_count
from tests.proxy.stage import connected
from tests.sockets.tls_pair import tls_pair


def over_sockets() -> tuple[Transport, Transport]:
    one, other = connected()
    return SocketTransport(one), SocketTransport(other)


def over_tcp() -> tuple[Transport, Transport]:
    one, other = connected(tcp=True)
    return SocketTransport(one), SocketTransport(other)


def over_tls() -> tuple[Transport, Transport]:
    one, other = tls_pair()
    return SocketTransport(one), SocketTransport(other)


DEADLINE = 20

Pair = Callable[[], tuple[Transport, Transport]]
each_kind = pytest.mark.parametrize("pair", [over_sockets, over_tls])


async def received_by(transport: Transport) -> bytes:
    """All that comes until the other end closes."""
    octets = b""
    while data := await transport.receive():
        octets += data
    return octets


async def test_an_end_or_error_that_came_with_bytes_is_noticed_though_the_peer_sends_no_more() -> None:
    for damage in (b"", b"\x17\x03\x03\x00\x20" + bytes(32)):
        ours, theirs = tls_pair()
        transport = SocketTransport(ours)
        theirs.send(b"last words")
        if damage:
            socket.socket.send(theirs, damage)
        else:
            with suppress(ssl.SSLWantReadError):
                theirs._sslobj.shutdown()  # close_notify, while the TCP connection stays open
        assert await transport.receive() == b"last words"
        with trio.fail_after(DEADLINE):
            if damage:
                with pytest.raises(TransportBroken):
                    await transport.receive()
            else:
                assert await transport.receive() == b""
        await transport.aclose()
        theirs.close()


# ------------------------------------------------------------------------------------------------ for both


@each_kind
async def test_bytes_and_their_end(pair: Pair) -> None:
    ours, theirs = pair()
    await ours.send(b"abc")
    await ours.send(memoryview(b"def"))
    assert await theirs.receive() in (b"abc", b"abcdef")
    await ours.send(b"")
    await ours.send(b"ghi")
    await ours.send_eof()
    assert (await received_by(theirs)).endswith(b"ghi")
    assert theirs.received == 9
    for end in (ours, theirs):
        await end.aclose()
        await end.aclose()


@each_kind
async def test_who_waits_is_listening(pair: Pair) -> None:
    ours, theirs = pair()
    assert not ours.is_listening
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ours.receive)
        await wait_all_tasks_blocked()
        assert ours.is_listening
        await theirs.send(b"x")
    assert not ours.is_listening
    for end in (ours, theirs):
        await end.aclose()


@each_kind
async def test_closing_wakes_who_waits(pair: Pair) -> None:
    ours, theirs = pair()
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def listen() -> None:
            with pytest.raises(TransportBroken):
                await ours.receive()

        await wait_all_tasks_blocked()
        await ours.aclose()
    with pytest.raises(TransportBroken):
        await ours.send(b"x")
    with pytest.raises(TransportBroken):
        await ours.receive()
    await theirs.aclose()


@each_kind
async def test_a_peer_that_is_gone(pair: Pair) -> None:
    ours, theirs = pair()
    await theirs.aclose()
    with pytest.raises(TransportBroken):
        await ours.send(b"x")
    await ours.aclose()


@pytest.mark.parametrize("pair", [over_sockets, over_tcp, over_tls])
async def test_who_waits_to_send_sees_whether_the_peer_takes_anything(pair: Pair) -> None:
    ours, theirs = pair()
    assert not ours.is_sending
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ours.send, bytes(32 * 1024 * 1024))
        await wait_all_tasks_blocked(0.05)
        assert ours.is_sending
        before = ours.progress
        await wait_all_tasks_blocked(0.05)
        assert ours.progress == before
        while theirs.received < 16 * 1024 * 1024:
            await theirs.receive()
        assert ours.progress > before
        nursery.cancel_scope.cancel()
    assert not ours.is_sending
    for end in (ours, theirs):
        await end.aclose()


# -------------------------------------------------------------------------------- slow readers, and the end


async def fill(transport: Transport, marked: bytes) -> trio.CancelScope:
    """Send `marked`, over and over, until the socket takes no more; the scope of the send that waits."""
    while True:
        with trio.move_on_after(0.05) as scope:
            await transport.send(marked)
        if scope.cancelled_caught:
            return scope


@each_kind
@settings(max_examples=example_count(25), deadline=None)
@given(
    sizes=st.lists(st.integers(0, 300_000), min_size=1, max_size=30),
    tasks=st.integers(1, 3),
)
def test_nothing_is_torn_or_lost_however_slow_the_reader(pair: Pair, sizes: list[int], tasks: int) -> None:
    """Each task sends its own byte only; what one call was given arrives in one piece."""

    async def check() -> None:
        ours, theirs = pair()
        pieces: list[bytes] = []

        async def talk(octet: bytes) -> None:
            for number, size in enumerate(sizes):
                await ours.send(struct.pack(">cHI", octet, number, size) + octet * size)

        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def speak() -> None:
                async with trio.open_nursery() as speakers:
                    for number in range(tasks):
                        speakers.start_soon(talk, bytes([65 + number]))
                await ours.send_eof()

            octets = await received_by(theirs)
        while octets:
            octet, _, size = struct.unpack_from(">cHI", octets)
            assert octets[7 : 7 + size] == octet * size
            pieces.append(octets[:7])
            octets = octets[7 + size :]
        assert len(pieces) == len(sizes) * tasks
        for end in (ours, theirs):
            await end.aclose()

    trio.run(check)


@each_kind
async def test_what_a_cancelled_send_left_goes_before_the_next(pair: Pair) -> None:
    ours, theirs = pair()
    frame = b"<" + bytes(100_000) + b">"
    await fill(ours, frame)
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def send_last() -> None:
            await ours.send(b"<last>")
            await ours.send_eof()

        octets = await received_by(theirs)
    *frames, last = octets.split(b"><")
    assert last == b"last>"
    assert {len(each.strip(b"<>")) for each in frames} == {100_000}
    for transport in (ours, theirs):
        await transport.aclose()


@each_kind
async def test_a_sender_that_waits_for_its_turn_may_be_cancelled(pair: Pair) -> None:
    ours, theirs = pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ours.send, bytes(1_000_000))
        await wait_all_tasks_blocked()
        with trio.CancelScope() as impatient:
            nursery.start_soon(ours.send, b"second")
            await wait_all_tasks_blocked()
            impatient.cancel()
            await ours.send(b"never")
        nursery.start_soon(ours.send_eof)
        assert await received_by(theirs) == bytes(1_000_000) + b"second"
    for end in (ours, theirs):
        await end.aclose()


@each_kind
async def test_the_end_comes_after_what_waits(pair: Pair) -> None:
    ours, theirs = pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ours.send, bytes(1_000_000))
        await wait_all_tasks_blocked()
        nursery.start_soon(ours.send_eof)
        assert len(await received_by(theirs)) == 1_000_000
    for end in (ours, theirs):
        await end.aclose()


@each_kind
async def test_closing_wakes_who_waits_to_send(pair: Pair) -> None:
    ours, theirs = pair()
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def greet() -> None:
            with pytest.raises(TransportBroken, match="closed here"):
                await ours.send(bytes(1_000_000))

        await wait_all_tasks_blocked()
        await ours.aclose()
    await theirs.aclose()


async def test_a_reset_by_name() -> None:
    end, other = connected(tcp=True)
    ours = SocketTransport(end)
    other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    other.close()
    with pytest.raises(TransportBroken, match="reset by the peer"):
        await ours.receive()
    await ours.aclose()


async def test_a_reset_of_ours() -> None:
    end, other = connected(tcp=True)
    ours, theirs = SocketTransport(end), SocketTransport(other)
    await ours.reset()
    await ours.reset()
    with pytest.raises(TransportBroken, match="reset by the peer"):
        await theirs.receive()
    with pytest.raises(TransportBroken):
        await ours.receive()
    await theirs.aclose()


@each_kind
async def test_reads_grow_with_what_there_is_and_shrink_again(pair: Pair) -> None:
    ours, theirs = pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ours.send, bytes(4_000_000))
        left, largest = 4_000_000, 0
        while left:
            data = await theirs.receive()
            left -= len(data)
            largest = max(largest, len(data))
    assert LEAST_READ < largest <= MOST_READ
    for _ in range(10):
        await ours.send(b"x")
        assert await theirs.receive() == b"x"
    assert theirs._size == LEAST_READ  # type: ignore[attr-defined]
    for end in (ours, theirs):
        await end.aclose()


async def test_others_have_their_turn() -> None:
    """Reads that never have to wait do not keep the other tasks from running for long."""
    end, other = connected()
    theirs = SocketTransport(other)
    reads = longest = 0
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def refill() -> None:
            nonlocal reads, longest
            for _ in range(200):
                with suppress(BlockingIOError):
                    while True:
                        end.send(bytes(65536))
                longest, reads = max(longest, reads), 0
                await trio.lowlevel.checkpoint()
            end.close()

        while await theirs.receive():
            reads += 1
    assert longest <= 2 * TURN
    await theirs.aclose()


async def test_a_descriptor_used_again_is_not_mistaken_for_the_old() -> None:
    ours, theirs = over_sockets()
    await ours.aclose()
    new, far = over_sockets()  # which likely has the descriptor that was just given back
    for action in (ours.receive(), ours.send(b"x"), ours.send_eof()):
        with suppress(TransportBroken):
            await action
    await ours.aclose()
    await new.send(b"y")
    assert await far.receive() == b"y"
    for end in (theirs, new, far):
        await end.aclose()


# -------------------------------------------------------------------------------------------- without waiting


@each_kind
async def test_what_goes_without_waiting(pair: Pair) -> None:
    ours, theirs = pair()
    assert ours.send_now(b"abc") == 3
    assert await theirs.receive() == b"abc"
    most = bytes(10_000_000)
    sent = ours.send_now(most)
    assert 0 < sent < len(most)
    assert ours.send_now(b"x") == 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ours.send, most[sent:])
        await wait_all_tasks_blocked()
        assert ours.send_now(b"x") == 0
        nursery.start_soon(ours.send_eof)
        assert len(await received_by(theirs)) == len(most)
    await theirs.aclose()
    await ours.aclose()
    with pytest.raises(TransportBroken):
        ours.send_now(b"x")


@each_kind
async def test_pieces_go_without_waiting_too(pair: Pair) -> None:
    ours, theirs = pair()
    assert ours.send_pieces_now([b"ab", b"", b"cde"]) == 5
    assert await theirs.receive() == b"abcde"
    assert ours.send_pieces_now([b"x"] * (MOST_PIECES + 1)) == MOST_PIECES, "the system takes no more at once"
    pieces = [bytes(1_000_000)] * 10
    sent = ours.send_pieces_now(pieces)
    assert 0 < sent < 10_000_000
    assert ours.send_pieces_now(pieces) == 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ours.send, b"".join(pieces)[sent:])
        await wait_all_tasks_blocked()
        assert ours.send_pieces_now([b"x"]) == 0
        nursery.start_soon(ours.send_eof)
        assert len(await received_by(theirs)) == MOST_PIECES + 10_000_000
    await theirs.aclose()
    await ours.aclose()
    with pytest.raises(TransportBroken):
        ours.send_pieces_now([b"x"])


@each_kind
async def test_some_of_the_pieces_are_sent_once_the_peer_takes_any(pair: Pair) -> None:
    ours, theirs = pair()
    pieces = [b"ab", b"", bytes(1_000_000), b"cd"] * 3
    left = b"".join(pieces)
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def send() -> None:
            nonlocal left
            while left:
                sent = await ours.send_some([left[:2], left[2:]])
                assert sent > 0
                left = left[sent:]
            await ours.send_eof()

        assert await received_by(theirs) == b"".join(pieces)
    await theirs.aclose()
    await ours.aclose()
    with pytest.raises(TransportBroken):
        await ours.send_some([b"x"])


async def test_a_socket_that_is_lent_comes_back_with_what_was_left() -> None:
    ours, theirs = socket.socketpair()
    for each in (ours, theirs):
        each.setblocking(False)
    transport = SocketTransport(ours)
    assert transport.lend() == ours.fileno()
    assert transport.is_listening
    transport.take_back(b"unread", b"unsent")
    assert not transport.is_listening, "what has come is not silence"
    assert transport.lend() is None, "something is still to be sent and received here"
    assert transport.send_now(b"later") == 0
    theirs.send(b"next")
    assert await transport.receive() == b"unread"
    assert await transport.receive() == b"next"
    await transport.send(b", later")
    assert theirs.recv(100) == b"unsent, later"
    assert transport.lend() == ours.fileno()
    transport.take_back(b"", b"")
    assert transport.is_listening
    transport.lend()
    transport.take_back(b"", b"", is_held_up=True)
    assert not transport.is_listening, "who is not read from is not silent"
    theirs.close()
    await transport.aclose()
    assert transport.lend() is None


async def test_what_is_read_without_waiting_is_not_listening_even_if_it_was_to_be_lent() -> None:
    ours, theirs = socket.socketpair()
    for each in (ours, theirs):
        each.setblocking(False)
    transport = SocketTransport(ours)
    theirs.send(bytes(LEAST_READ + 1))
    assert len(await transport.receive()) == LEAST_READ
    transport.lend()
    assert len(await transport.receive()) == 1
    assert not transport.is_listening
    theirs.close()
    await transport.aclose()


async def test_an_error_that_the_borrower_met_with_is_raised_after_what_came_before() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    transport = SocketTransport(ours)
    transport.lend()
    transport.take_back(b"before", b"", errno.ECONNRESET)
    assert await transport.receive() == b"before"
    with pytest.raises(TransportBroken, match="reset by the peer"):
        await transport.receive()
    theirs.close()
    await transport.aclose()


@each_kind
async def test_reads_are_short_until_more_may_be_read(pair: Pair) -> None:
    ours, theirs = pair()
    assert isinstance(theirs, SocketTransport)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ours.send, bytes(8_000_000))
        while len(await theirs.receive()) < 4 * LEAST_READ:
            pass
        theirs.read_less()
        assert max([len(await theirs.receive()) for _ in range(10)]) == LEAST_READ
        for _ in range(10):
            theirs.read_more()
        largest = 0
        while largest <= LEAST_READ:
            largest = len(await theirs.receive())
        nursery.cancel_scope.cancel()
    assert theirs._most_read == MOST_READ
    for end in (ours, theirs):
        await end.aclose()

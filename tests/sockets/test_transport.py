"""Bytes over a plain socket and over a trio stream: what holds for both, and what differs."""

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
from trio.testing import memory_stream_pair, wait_all_tasks_blocked

from amqproxy.sockets.transport import (
    LEAST_READ,
    MOST_PIECES,
    MOST_READ,
    TURN,
    SocketTransport,
    StreamTransport,
    Transport,
    TransportBroken,
)
from tests.example_count import example_count
from tests.proxy.stage import connected


def over_sockets() -> tuple[Transport, Transport]:
    one, other = connected()
    return SocketTransport(one), SocketTransport(other)


def over_streams() -> tuple[Transport, Transport]:
    one, other = memory_stream_pair()
    return StreamTransport(one), StreamTransport(other)


Pair = Callable[[], tuple[Transport, Transport]]
each_kind = pytest.mark.parametrize("pair", [over_sockets, over_streams])


async def received_by(transport: Transport) -> bytes:
    """All that comes until the other end closes."""
    octets = b""
    while data := await transport.receive():
        octets += data
    return octets


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


def over_tcp_streams() -> tuple[Transport, Transport]:
    """As TLS is: a trio stream over TCP."""
    one, other = (trio.SocketStream(trio.socket.from_stdlib_socket(end)) for end in connected(tcp=True))
    return StreamTransport(one), StreamTransport(other)


@pytest.mark.parametrize("pair", [over_sockets, over_tcp_streams])
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


# ------------------------------------------------------------------------------------------------ a stream


class Gone(trio.abc.Stream):
    """A stream of which every method finds out that it is over."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        raise self._error

    async def wait_send_all_might_not_block(self) -> None:
        raise self._error

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        raise self._error

    async def aclose(self) -> None:
        raise self._error


@pytest.mark.parametrize(
    "error",
    [trio.BrokenResourceError(), trio.ClosedResourceError("this socket was closed"), ssl.SSLError("bad"), OSError()],
)
async def test_a_stream_that_is_over_is_broken_whatever_is_asked_of_it(error: BaseException) -> None:
    """As TLS is where the client has closed it, or another task has in the meantime."""
    transport = StreamTransport(Gone(error))
    with pytest.raises(TransportBroken):
        await transport.receive()
    with pytest.raises(TransportBroken):
        await transport.send(b"x")
    with pytest.raises(TransportBroken):
        await transport.send_eof()
    await transport.aclose()
    await transport.reset()


# ------------------------------------------------------------------------------------------- a plain socket


async def fill(transport: SocketTransport, marked: bytes) -> trio.CancelScope:
    """Send `marked`, over and over, until the socket takes no more; the scope of the send that waits."""
    while True:
        with trio.move_on_after(0.05) as scope:
            await transport.send(marked)
        if scope.cancelled_caught:
            return scope


@settings(max_examples=example_count(25), deadline=None)
@given(
    sizes=st.lists(st.integers(0, 300_000), min_size=1, max_size=30),
    tasks=st.integers(1, 3),
)
def test_nothing_is_torn_or_lost_however_slow_the_reader(sizes: list[int], tasks: int) -> None:
    """Each task sends its own byte only; what one call was given arrives in one piece."""

    async def check() -> None:
        ours, theirs = over_sockets()
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


async def test_what_a_cancelled_send_left_goes_before_the_next() -> None:
    end, other = connected()
    ours, theirs = SocketTransport(end), SocketTransport(other)
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


async def test_a_sender_that_waits_for_its_turn_may_be_cancelled() -> None:
    ours, theirs = over_sockets()
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


async def test_the_end_comes_after_what_waits() -> None:
    ours, theirs = over_sockets()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ours.send, bytes(1_000_000))
        await wait_all_tasks_blocked()
        nursery.start_soon(ours.send_eof)
        assert len(await received_by(theirs)) == 1_000_000
    for end in (ours, theirs):
        await end.aclose()


async def test_closing_wakes_who_waits_to_send() -> None:
    ours, theirs = over_sockets()
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


async def test_a_reset_under_tls_or_over_a_trio_stream() -> None:
    end, other = connected(tcp=True)
    trio_socket = trio.socket.from_stdlib_socket(end)
    ours, theirs = StreamTransport(trio.SocketStream(trio_socket)), SocketTransport(other)
    await ours.reset()
    await ours.reset()
    with pytest.raises(TransportBroken, match="reset by the peer"):
        await theirs.receive()
    await theirs.aclose()
    one, _ = memory_stream_pair()
    in_memory = StreamTransport(one)
    await in_memory.reset()
    with pytest.raises(TransportBroken):
        await in_memory.send(b"x")


async def test_reads_grow_with_what_there_is_and_shrink_again() -> None:
    ours, theirs = over_sockets()
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


# --------------------------------------------------------------------------------------------- a trio stream


async def test_a_cancelled_send_leaves_a_stream_torn() -> None:
    class Stuck(trio.abc.Stream):
        async def send_all(self, data: bytes | bytearray | memoryview) -> None:
            await trio.sleep_forever()

        async def wait_send_all_might_not_block(self) -> None: ...

        async def receive_some(self, max_bytes: int | None = None) -> bytes:
            return b""

        async def aclose(self) -> None: ...

    ours = StreamTransport(Stuck())
    with trio.move_on_after(0.01):
        await ours.send(b"half a fra")
    with pytest.raises(TransportBroken, match="left incomplete data"):
        await ours.send(b"me")


# -------------------------------------------------------------------------------------------- without waiting


async def test_what_goes_without_waiting() -> None:
    ours, theirs = over_sockets()
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


async def test_pieces_go_without_waiting_too() -> None:
    ours, theirs = over_sockets()
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


async def test_a_stream_does_not_know() -> None:
    ours, _ = over_streams()
    assert ours.send_now(b"x") == 0
    assert ours.send_pieces_now([b"x"]) == 0


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


async def test_reads_are_short_until_more_may_be_read() -> None:
    ours, theirs = over_sockets()
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

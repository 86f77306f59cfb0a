"""What is done to bytes on their way, over a real socket, on a clock that jumps."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock, wait_all_tasks_blocked

from amqproxy.amqp091.transitions import CLIENT
from amqproxy.proxy.faulty_transport import MOST_HELD, FaultyTransport
from amqproxy.rules.faults.impairments import Bandwidth, Cutoff, HalfClose, Latency, Reset, Silence, Slicing, SlowClose
from amqproxy.rules.verdict import Impairment
from amqproxy.sockets.transport import SocketTransport, TransportBroken
from tests.proxy.stage import connected


class Listener:
    """The peer: what it received, and when."""

    def __init__(self, transport: SocketTransport) -> None:
        self.transport = transport
        self.arrivals: list[tuple[float, str]] = []
        self.is_over = trio.Event()
        self._start = trio.current_time()

    async def listen(self) -> None:
        while True:
            try:
                data = await self.transport.receive()
            except TransportBroken as error:
                self._note(f"({error})")
                self.is_over.set()
                return
            self._note(data.decode() if len(data) < 10 else f"{len(data)} bytes")
            if not data:
                return

    def _note(self, what: str) -> None:
        self.arrivals.append((round(trio.current_time() - self._start, 3), what))


@asynccontextmanager
async def faulty(
    *impairments: Impairment, tcp: bool = False, runs: bool = True
) -> AsyncIterator[tuple[FaultyTransport, Listener]]:
    end, other = connected(tcp=tcp)
    ours = FaultyTransport(SocketTransport(end), lambda: 0.5)
    listener = Listener(SocketTransport(other))
    for impairment in impairments:
        ours.impair(impairment)
    async with trio.open_nursery() as nursery:
        if runs:
            nursery.start_soon(ours.run)
        nursery.start_soon(listener.listen)
        await wait_all_tasks_blocked()
        yield ours, listener
        nursery.cancel_scope.cancel()
    await ours.aclose()
    await listener.transport.aclose()


async def test_without_impairments_it_is_the_transport_itself(autojump_clock: MockClock) -> None:
    async with faulty() as (ours, listener):
        await ours.send(b"ab")
        assert ours.send_now(b"c") == 1
        await ours.send_eof()
        await trio.lowlevel.checkpoint()
        await wait_all_tasks_blocked()
        assert listener.arrivals == [(0, "abc"), (0, "")]
        await listener.transport.send(b"defg")
        assert not ours.is_listening
        assert await ours.receive() == b"defg"
        assert ours.received == 4


@pytest.mark.parametrize("runs", [True, False])
async def test_latency_keeps_order_and_the_end_comes_last(autojump_clock: MockClock, runs: bool) -> None:
    async with faulty(Latency(CLIENT, delay=2), runs=runs) as (ours, listener):
        await ours.send(b"a")
        assert trio.current_time() == (0 if runs else 2) + listener._start
        await trio.sleep(0.5)
        await ours.send(b"b")
        assert ours.send_now(b"c") == 0
        await ours.send_eof()
        await trio.sleep(1)
        later = 0 if runs else 2
        assert listener.arrivals == [(2, "a"), (2.5 + later, "b"), (2.5 + later, "")]


async def test_latency_that_ends_leaves_the_transport_itself(autojump_clock: MockClock) -> None:
    async with faulty(Latency(CLIENT, 1, delay=2)) as (ours, listener):
        await ours.send(b"a")
        await trio.sleep(1.5)
        await ours.send(b"b")
        await trio.sleep(5)
        assert ours.send_now(b"c") == 1
        await trio.sleep(1)
        assert listener.arrivals == [(2, "ab"), (6.5, "c")]


async def test_bandwidth(autojump_clock: MockClock) -> None:
    async with faulty(Bandwidth(CLIENT, rate=40)) as (ours, listener):
        await ours.send(b"abcdef")
        await ours.send_eof()
        await trio.sleep(1)
        assert listener.arrivals == [(0, "ab"), (0.05, "cd"), (0.1, "ef"), (0.1, "")]


async def test_slices(autojump_clock: MockClock) -> None:
    async with faulty(Slicing(CLIENT, size=2, pause=1)) as (ours, listener):
        await ours.send(b"abcde")
        await trio.sleep(10)
        assert listener.arrivals == [(0, "ab"), (1, "cd"), (2, "e")]


async def test_who_sends_more_than_can_be_held_waits(autojump_clock: MockClock) -> None:
    async with faulty(Silence(CLIENT, 60)) as (ours, _):
        await ours.send(bytes(MOST_HELD - 1))
        await ours.send(b"more than that by a little")
        with trio.move_on_after(59) as patience:
            await ours.send(b"x")
        assert patience.cancelled_caught
        start = trio.current_time()
        await ours.send(b"y")
        assert trio.current_time() - start == pytest.approx(1)


async def test_those_who_wait_for_room_send_in_their_order(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery
) -> None:
    """A content that was released goes before what its channel goes on with."""
    end, other = connected()
    transport = SocketTransport(end)
    sent: list[bytes] = []

    async def keep(_: SocketTransport, data: bytes | memoryview) -> None:
        sent.append(bytes(data[:1]))

    monkeypatch.setattr(SocketTransport, "send", keep)
    ours = FaultyTransport(transport, lambda: 0.5)
    nursery.start_soon(ours.run)
    for _ in range(8):  # trio shuffles the tasks that one event wakes
        ours.impair(Silence(CLIENT, 1))
        sent.clear()
        async with trio.open_nursery() as senders:
            for number in range(4):
                senders.start_soon(ours.send, b"%d" % number * MOST_HELD)
                await wait_all_tasks_blocked()
        await trio.sleep(1)
        assert sent == [b"0", b"1", b"2", b"3"]
    await ours.aclose()
    other.close()


async def test_silence_and_then_the_end(autojump_clock: MockClock) -> None:
    async with faulty(Silence(CLIENT, close_after=3)) as (ours, listener):
        await ours.send(b"a")
        with pytest.raises(TransportBroken, match="was closed by a fault rule"):
            await ours.receive()
        await trio.sleep(1)
        assert listener.arrivals == [(3, "")]
        with pytest.raises(TransportBroken):
            await ours.send(b"b")
        with pytest.raises(TransportBroken):
            await ours.send_eof()


async def test_a_sender_that_waits_for_room_gets_the_end(autojump_clock: MockClock) -> None:
    async with faulty(Silence(CLIENT, close_after=3)) as (ours, _):
        await ours.send(bytes(MOST_HELD))
        with pytest.raises(TransportBroken, match="was closed by a fault rule"):
            await ours.send(b"x")
        assert trio.current_time() == pytest.approx(_._start + 3)


async def test_a_reset() -> None:
    async with faulty(Reset(CLIENT), tcp=True) as (_, listener):
        with trio.fail_after(10):
            await listener.is_over.wait()
        assert listener.arrivals[0][1] == "(reset by the peer)"


async def test_a_half_close_leaves_the_other_half(autojump_clock: MockClock) -> None:
    async with faulty(HalfClose(CLIENT, after=1)) as (ours, listener):
        await ours.send(b"a")
        await trio.sleep(2)
        await ours.send(b"b")
        await ours.send_eof()
        assert listener.arrivals == [(0, "a"), (1, "")]
        await listener.transport.send(b"c")
        assert await ours.receive() == b"c"


async def test_a_cutoff(autojump_clock: MockClock) -> None:
    async with faulty(Cutoff(CLIENT, size=3)) as (ours, listener):
        await ours.send(b"ab")
        await ours.send(b"cd")
        await trio.sleep(1)
        assert "".join(what for _, what in listener.arrivals) == "abc"


async def test_a_slow_close(autojump_clock: MockClock) -> None:
    async with faulty(SlowClose(CLIENT, delay=5)) as (ours, listener):
        await ours.send(b"a")
        await ours.send_eof()
        await trio.lowlevel.checkpoint()
        await wait_all_tasks_blocked()
        assert listener.arrivals == [(0, "a"), (5, "")]
        await ours.linger()
        assert trio.current_time() == listener._start + 5, "once is enough"


async def test_a_peer_that_is_gone(autojump_clock: MockClock) -> None:
    async with faulty(Latency(CLIENT, delay=1)) as (ours, listener):
        await listener.transport.aclose()
        await ours.send(b"a")
        await ours.send(b"b")
        await trio.sleep(2)
        with pytest.raises(TransportBroken, match="reset by the peer"):
            await ours.send(b"c")


async def test_an_impairment_can_begin_at_any_time(autojump_clock: MockClock) -> None:
    async with faulty() as (ours, listener):
        await ours.send(b"a")
        await trio.sleep(1)
        ours.impair(Latency(CLIENT, 1, delay=1))
        await ours.send(b"b")
        await trio.sleep(3)
        await ours.send(b"c")
        await trio.sleep(1)
        assert listener.arrivals == [(0, "a"), (2, "b"), (4, "c")]


async def test_sending_goes_on_when_the_carrying_task_has_ended(autojump_clock: MockClock) -> None:
    """As the last words of a session do: its tasks are gone by then."""
    async with faulty(Latency(CLIENT, delay=2), runs=False) as (ours, listener):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ours.run)
            await wait_all_tasks_blocked()
            await ours.send(b"a")
            nursery.cancel_scope.cancel()
        await ours.send(b"b")
        await ours.send_eof()
        await trio.lowlevel.checkpoint()
        await wait_all_tasks_blocked()
        assert "".join(what for _, what in listener.arrivals) == "ab"
        assert listener.arrivals[-1] == (2, "")

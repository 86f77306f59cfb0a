"""A copyist and its broker, which a test plays: every byte that goes between them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import structlog
import trio
from trio.testing import MockClock

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import HEARTBEAT_FRAME, encode_method, every_frame
from amqproxy.amqp091.methods import (
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.wire import Table
from amqproxy.proxy.memory_budget import MemoryBudget
from amqproxy.proxy.mirroring.mirror_drops import DropReason, MirrorDrops
from amqproxy.proxy.mirroring.mirror_publisher import (
    BATCH_SIZE,
    FIRST_PAUSE,
    HANDSHAKE_TIMEOUT,
    IDLE_TIMEOUT,
    LAST_PAUSE,
    SEND_TIMEOUT,
    MirrorLogin,
    MirrorPublisher,
)
from amqproxy.proxy.upstream import Unreachable
from amqproxy.sockets.transport import Transport, TransportBroken

START_OK = ConnectionStartOk(mechanism="PLAIN", response=b"\0copies\0secret")
NOT_FOUND = ChannelClose(404, "NOT_FOUND - no exchange 'nil' in vhost 'shop'", 60, 40)


def copy(body: bytes) -> Command:
    """A publish of a session, on any channel."""
    return Command(9, BasicPublish(exchange="x", routing_key="k"), Properties(priority=1), body)


def sent(*bodies: bytes) -> bytes:
    """The bytes of these copies."""
    commands = [
        Command(1, BasicPublish(exchange="x", routing_key="k"), Properties(priority=1), body) for body in bodies
    ]
    return b"".join(command.encode(131_072) for command in commands)


class Wire:
    """Plays a transport: frames of the broker go in, frames of the mirror publisher come out; sending may fail."""

    def __init__(self) -> None:
        self.incoming, self._incoming = trio.open_memory_channel[bytes](100)
        self._outgoing, self.outgoing = trio.open_memory_channel[bytes](0)  # sending waits until it is received
        self.is_closed = False
        self.is_broken = False

    async def receive(self) -> bytes:
        return await self._incoming.receive()

    async def send(self, data: bytes | memoryview) -> None:
        if self.is_broken:
            raise TransportBroken("cut off")
        await self._outgoing.send(bytes(data))

    async def aclose(self) -> None:
        self.is_closed = True

    async def expect(self, expected: bytes) -> None:
        found = b""
        while len(found) < len(expected):
            found += await self.outgoing.receive()
        assert found == expected, [frame.method for frame in every_frame(found, 0)]

    async def receive_all(self) -> None:
        """Receive everything, until cancelled."""
        while True:
            await self.outgoing.receive()

    async def broker_sends(self, method: Method, channel: int = 0) -> None:
        await self.incoming.send(encode_method(channel, method))

    async def shakes_hands(self, heartbeat: int = 0) -> None:
        await self.expect(HEADER)
        await self.broker_sends(ConnectionStart(mechanisms=b"PLAIN", locales=b"en_US"))
        await self.expect(encode_method(0, START_OK))
        await self.broker_sends(ConnectionTune(2047, 131_072, heartbeat))
        tune_ok = encode_method(0, ConnectionTuneOk(2047, 131_072, heartbeat))
        await self.expect(tune_ok + encode_method(0, ConnectionOpen("shop")))
        await self.broker_sends(ConnectionOpenOk())
        await self.expect(encode_method(1, ChannelOpen()))
        await self.broker_sends(ChannelOpenOk(), 1)


class Exchange:
    """A copyist, the wires that it dialled, and when; what it dropped."""

    def __init__(self, backlog: int, memory: int) -> None:
        self.wires: list[Wire] = []
        self.dialled: list[float] = []
        self.dropped: list[int] = []
        self.reasons: list[DropReason] = []
        self.is_away = False
        self.failure: Exception | None = None
        self._dialled, self._next = trio.open_memory_channel[Wire](100)
        self.memory = MemoryBudget(memory)
        drops = MirrorDrops(self._note_drop)
        self.publisher = MirrorPublisher(self._dial, MirrorLogin(START_OK, "shop"), backlog, self.memory, drops)

    def _note_drop(self, reason: DropReason, count: int) -> None:
        self.dropped.append(count)
        self.reasons.append(reason)

    async def _dial(self) -> Transport:
        self.dialled.append(trio.current_time())
        if self.is_away:
            raise Unreachable("refused", "no listener")
        if self.failure is not None:
            raise self.failure
        wire = Wire()
        self.wires.append(wire)
        await self._dialled.send(wire)
        return wire  # type: ignore[return-value]

    async def wire(self) -> Wire:
        return await self._next.receive()


@asynccontextmanager
async def exchange(backlog: int = 100, memory: int = 1 << 30) -> AsyncIterator[Exchange]:
    found = Exchange(backlog, memory)
    with trio.fail_after(100_000):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(found.publisher.run)
            yield found
            nursery.cancel_scope.cancel()


async def test_it_connects_when_there_is_something_to_send(autojump_clock: MockClock) -> None:
    async with exchange() as found:
        await trio.sleep(IDLE_TIMEOUT - 1)
        assert found.dialled == []
        found.publisher.put(copy(b"one"))
        found.publisher.put(copy(b"two"))
        wire = await found.wire()
        await wire.shakes_hands()
        await wire.expect(sent(b"one", b"two"))
        found.publisher.put(copy(b"three"))
        await wire.expect(sent(b"three"))
        await trio.sleep(IDLE_TIMEOUT - 1)
        assert (len(found.dialled), found.dropped, wire.is_closed) == (1, [], False)
    assert wire.is_closed


async def test_heartbeats_where_there_is_nothing_to_send(autojump_clock: MockClock) -> None:
    async with exchange() as found:
        found.publisher.put(copy(b"one"))
        wire = await found.wire()
        await wire.shakes_hands(heartbeat=20)
        await wire.expect(sent(b"one"))
        start = trio.current_time()
        await wire.expect(HEARTBEAT_FRAME)
        await wire.expect(HEARTBEAT_FRAME)
        assert trio.current_time() - start == pytest.approx(20.0)


async def test_no_more_wait_than_may(autojump_clock: MockClock) -> None:
    async with exchange(backlog=2) as found:
        for body in (b"one", b"two", b"lost", b"lost too"):
            found.publisher.put(copy(body))
        assert found.dropped == [1, 1]
        wire = await found.wire()
        await wire.shakes_hands()
        await wire.expect(sent(b"one", b"two"))


async def test_a_broker_that_is_away_is_tried_less_and_less_often(
    autojump_clock: MockClock, log: list[structlog.typing.EventDict]
) -> None:
    async with exchange(backlog=10_000) as found:
        found.is_away = True
        expected = [FIRST_PAUSE * 2**doubled for doubled in range(6)] + [LAST_PAUSE] * 2
        while len(found.dialled) <= len(expected):
            found.publisher.put(copy(b"lost"))
            await trio.sleep(0.1)
        pauses = [later - sooner for sooner, later in zip(found.dialled, found.dialled[1:], strict=False)]
        assert pauses == pytest.approx(expected, abs=0.2)
        assert {event["reason"] for event in log} == {"no listener"}
        assert sum(event["dropped"] for event in log) == sum(found.dropped) > 0


async def test_a_silent_broker_is_given_up(autojump_clock: MockClock, log: list[structlog.typing.EventDict]) -> None:
    async with exchange() as found:
        found.publisher.put(copy(b"lost"))
        wire = await found.wire()
        await wire.expect(HEADER)
        await trio.sleep(HANDSHAKE_TIMEOUT + 0.1)
        assert (found.dropped, wire.is_closed, log[0]["reason"]) == ([1], True, "no answer")


async def test_a_login_that_is_refused(autojump_clock: MockClock, log: list[structlog.typing.EventDict]) -> None:
    async with exchange() as found:
        found.publisher.put(copy(b"lost"))
        wire = await found.wire()
        await wire.expect(HEADER)
        await wire.broker_sends(ConnectionStart(mechanisms=b"PLAIN", locales=b"en_US"))
        await wire.expect(encode_method(0, START_OK))
        await wire.broker_sends(ConnectionClose(403, "ACCESS_REFUSED - no", 0, 0))
        await trio.sleep(0.1)
        assert (found.dropped, wire.is_closed, log[0]["reason"]) == ([1], True, "403 ACCESS_REFUSED - no")


async def test_a_close_is_answered_and_the_next_copy_goes_another_way(autojump_clock: MockClock) -> None:
    async with exchange() as found:
        found.publisher.put(copy(b"one"))
        first = await found.wire()
        await first.shakes_hands()
        await first.expect(sent(b"one"))
        await first.broker_sends(ConnectionClose(320, "CONNECTION_FORCED - shutdown", 0, 0))
        await first.expect(encode_method(0, ConnectionCloseOk()))
        await trio.sleep(FIRST_PAUSE + 0.1)
        assert first.is_closed
        found.publisher.put(copy(b"two"))
        second = await found.wire()
        await second.shakes_hands()
        await second.expect(sent(b"two"))


async def test_a_channel_that_is_closed_is_opened_again(autojump_clock: MockClock) -> None:
    async with exchange() as found:
        found.publisher.put(copy(b"lost"))
        wire = await found.wire()
        await wire.shakes_hands()
        await wire.expect(sent(b"lost"))
        await wire.broker_sends(NOT_FOUND, 1)
        await wire.expect(encode_method(1, ChannelCloseOk()) + encode_method(1, ChannelOpen()))
        await wire.broker_sends(ChannelOpenOk(), 1)
        assert found.dropped == [1]
        found.publisher.put(copy(b"found"))
        await wire.expect(sent(b"found"))
        assert len(found.dialled) == 1


async def test_what_comes_while_the_channel_is_opened_again_is_not_forgotten(autojump_clock: MockClock) -> None:
    async with exchange() as found:
        found.publisher.put(copy(b"lost"))
        wire = await found.wire()
        await wire.shakes_hands()
        await wire.expect(sent(b"lost"))
        await wire.broker_sends(NOT_FOUND, 1)
        await trio.sleep(0.1)  # now the close is answered, and the answer is not read yet
        found.publisher.put(copy(b"found"))
        await trio.sleep(0.1)
        await wire.expect(encode_method(1, ChannelCloseOk()) + encode_method(1, ChannelOpen()))
        await wire.broker_sends(ChannelOpenOk(), 1)
        with trio.fail_after(5):
            await wire.expect(sent(b"found"))


async def test_what_could_not_be_sent_is_counted(autojump_clock: MockClock) -> None:
    async with exchange() as found:
        found.publisher.put(copy(b"one"))
        wire = await found.wire()
        await wire.shakes_hands()
        await wire.expect(sent(b"one"))
        wire.is_broken = True
        for _ in range(3):
            found.publisher.put(copy(b"lost"))
        await trio.sleep(0.1)
        assert sum(found.dropped) == 3


async def test_a_broker_that_stops_reading_is_given_up(
    autojump_clock: MockClock, log: list[structlog.typing.EventDict]
) -> None:
    async with exchange() as found:
        found.publisher.put(copy(b"one"))
        wire = await found.wire()
        await wire.shakes_hands()
        found.publisher.put(copy(b"two"))
        await trio.sleep(SEND_TIMEOUT + 0.1)  # and nothing is received
        assert (sum(found.dropped), found.reasons, wire.is_closed) == (2, [DropReason.CONNECTION], True)
        assert log[0]["reason"] == "the broker has read nothing for 30 s"
        assert found.memory.used == 0


async def test_a_broker_that_falls_silent_is_given_up(
    autojump_clock: MockClock, log: list[structlog.typing.EventDict]
) -> None:
    async with exchange() as found:
        found.publisher.put(copy(b"one"))
        wire = await found.wire()
        await wire.shakes_hands(heartbeat=5)
        await wire.expect(sent(b"one"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wire.receive_all)
            await trio.sleep(11)
            nursery.cancel_scope.cancel()
        assert wire.is_closed
        assert log[0]["reason"] == "the broker has sent nothing for 10 s"


async def test_a_connection_without_copies_is_closed_in_good_order(autojump_clock: MockClock) -> None:
    async with exchange() as found:
        found.publisher.put(copy(b"one"))
        wire = await found.wire()
        await wire.shakes_hands()
        await wire.expect(sent(b"one"))
        await trio.sleep(IDLE_TIMEOUT - 1)
        assert not found.publisher.is_retired
        found.publisher.put(copy(b"two"))
        await wire.expect(sent(b"two"))
        await trio.sleep(IDLE_TIMEOUT - 1)
        assert not found.publisher.is_retired
        await trio.sleep(1.1)
        assert found.publisher.is_retired
        await wire.expect(encode_method(0, ConnectionClose(200, "nothing to send", 0, 0)))
        await wire.broker_sends(ConnectionCloseOk())
        await trio.sleep(0.1)
        assert (wire.is_closed, found.dropped) == (True, [])


async def test_a_broker_that_does_not_answer_our_close(autojump_clock: MockClock) -> None:
    async with exchange() as found:
        found.publisher.put(copy(b"one"))
        wire = await found.wire()
        await wire.shakes_hands()
        await wire.expect(sent(b"one"))
        found.publisher.retire()
        await trio.sleep(5)
        assert wire.is_closed


async def test_a_copy_that_cannot_be_encoded_costs_no_other(
    autojump_clock: MockClock, log: list[structlog.typing.EventDict]
) -> None:
    async with exchange() as found:
        found.publisher.put(copy(b"one"))
        for _ in range(3):
            found.publisher.put(Command(9, BasicPublish(exchange="x" * 256, routing_key="k"), Properties(), b"lost"))
            found.publisher.put(Command(9, BasicPublish(), Properties(priority=700), b"lost"))
        found.publisher.put(copy(b"two"))
        wire = await found.wire()
        await wire.shakes_hands()
        await wire.expect(sent(b"one", b"two"))
        assert found.reasons == [DropReason.INVALID] * 6
        assert [event["event"] for event in log] == ["copies dropped"]


async def test_a_header_that_does_not_fit_a_frame_costs_one_copy(autojump_clock: MockClock) -> None:
    async with exchange() as found:
        large = Properties(headers=Table({f"{number}": "x" * 1000 for number in range(132)}))
        found.publisher.put(Command(9, BasicPublish(), large, b"lost"))
        found.publisher.put(copy(b"one"))
        wire = await found.wire()
        await wire.shakes_hands()
        await wire.expect(sent(b"one"))
        assert found.reasons == [DropReason.INVALID]


async def test_bytes_that_wait_are_bounded(autojump_clock: MockClock) -> None:
    async with exchange(memory=100_000) as found:
        other = Exchange(100, 1)
        other.publisher = MirrorPublisher(
            found._dial, MirrorLogin(START_OK, "other"), 100, found.memory, MirrorDrops(other._note_drop)
        )
        for _ in range(10):
            found.publisher.put(copy(bytes(10_000)))
        assert found.reasons == [DropReason.MEMORY] * 6
        other.publisher.put(copy(bytes(10_000)))  # those who come later find room
        assert found.memory.used < 60_000
        assert other.dropped == []
        wire = await found.wire()
        await wire.shakes_hands()
        await wire.expect(sent(*[bytes(10_000)] * 4))
        await trio.sleep(0.1)
        assert found.memory.used < 12_000


async def test_a_large_copy_is_written_in_pieces_and_not_mixed_with_others(autojump_clock: MockClock) -> None:
    async with exchange() as found:
        large = bytes(3 * BATCH_SIZE)
        found.publisher.put(copy(large))
        wire = await found.wire()
        await wire.shakes_hands()
        await trio.sleep(0.1)
        await wire.broker_sends(NOT_FOUND, 1)  # while nothing of it was received
        await trio.sleep(0.1)
        reopened = encode_method(1, ChannelCloseOk()) + encode_method(1, ChannelOpen())
        await wire.expect(sent(large) + reopened)


async def test_an_unforeseen_failure_is_contained(
    autojump_clock: MockClock, log: list[structlog.typing.EventDict]
) -> None:
    async with exchange() as found:
        found.failure = RuntimeError("unforeseen")
        found.publisher.put(copy(b"lost"))
        await trio.sleep(FIRST_PAUSE + 0.1)
        assert (found.dropped, log[0]["event"], log[0]["log_level"]) == ([1], "mirror failed", "error")
        found.failure = None
        found.publisher.put(copy(b"one"))
        wire = await found.wire()
        await wire.shakes_hands()
        await wire.expect(sent(b"one"))

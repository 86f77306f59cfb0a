"""A copyist and its broker, which a test plays: every octet that goes between them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import structlog
import trio
from trio.testing import MockClock

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frames import HEARTBEAT_FRAME, encode_method, every_frame
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
from amqproxy.proxy.copyist import FIRST_PAUSE, HANDSHAKE_TIMEOUT, LAST_PAUSE, Copyist, Login
from amqproxy.proxy.upstream import Unreachable
from amqproxy.sockets.transport import Broken, Transport

START_OK = ConnectionStartOk(mechanism="PLAIN", response=b"\0copies\0secret")
NOT_FOUND = ChannelClose(404, "NOT_FOUND - no exchange 'nil' in vhost 'shop'", 60, 40)


def copy(body: bytes) -> Command:
    """A publish as a session has it, on whatever channel."""
    return Command(9, BasicPublish(exchange="x", routing_key="k"), Properties(priority=1), body)


def sent(*bodies: bytes) -> bytes:
    """The octets of these copies."""
    commands = [
        Command(1, BasicPublish(exchange="x", routing_key="k"), Properties(priority=1), body) for body in bodies
    ]
    return b"".join(command.encode(131_072) for command in commands)


class Wire:
    """Plays a transport: what the broker says goes in, what the copyist says comes out; sending may fail."""

    def __init__(self) -> None:
        self.say, self._said = trio.open_memory_channel[bytes](100)
        self._hear, self.heard = trio.open_memory_channel[bytes](0)  # sending waits until it is heard
        self.is_closed = False
        self.is_broken = False

    async def receive(self) -> bytes:
        return await self._said.receive()

    async def send(self, data: bytes | memoryview) -> None:
        if self.is_broken:
            raise Broken("cut off")
        await self._hear.send(bytes(data))

    async def aclose(self) -> None:
        self.is_closed = True

    async def hears(self, octets: bytes) -> None:
        found = b""
        while len(found) < len(octets):
            found += await self.heard.receive()
        assert found == octets, [frame.method for frame in every_frame(found, 0)]

    async def says(self, method: Method, channel: int = 0) -> None:
        await self.say.send(encode_method(channel, method))

    async def shakes_hands(self, heartbeat: int = 0) -> None:
        await self.hears(HEADER)
        await self.says(ConnectionStart(mechanisms=b"PLAIN", locales=b"en_US"))
        await self.hears(encode_method(0, START_OK))
        await self.says(ConnectionTune(2047, 131_072, heartbeat))
        tune_ok = encode_method(0, ConnectionTuneOk(2047, 131_072, heartbeat))
        await self.hears(tune_ok + encode_method(0, ConnectionOpen("shop")))
        await self.says(ConnectionOpenOk())
        await self.hears(encode_method(1, ChannelOpen()))
        await self.says(ChannelOpenOk(), 1)


class Exchange:
    """A copyist, the wires that it dialled, and when; what it dropped."""

    def __init__(self, backlog: int) -> None:
        self.wires: list[Wire] = []
        self.dialled: list[float] = []
        self.dropped: list[int] = []
        self.is_away = False
        self._dialled, self._next = trio.open_memory_channel[Wire](100)
        self.copyist = Copyist(self._dial, Login(START_OK, "shop"), backlog, self.dropped.append)

    async def _dial(self) -> Transport:
        self.dialled.append(trio.current_time())
        if self.is_away:
            raise Unreachable("refused", "nobody there")
        wire = Wire()
        self.wires.append(wire)
        await self._dialled.send(wire)
        return wire  # type: ignore[return-value]

    async def wire(self) -> Wire:
        return await self._next.receive()


@asynccontextmanager
async def exchange(backlog: int = 100) -> AsyncIterator[Exchange]:
    found = Exchange(backlog)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(found.copyist.run)
        yield found
        nursery.cancel_scope.cancel()


async def test_it_connects_when_there_is_something_to_send(autojump_clock: MockClock) -> None:
    async with exchange() as found:
        await trio.sleep(100)
        assert found.dialled == []
        found.copyist.put(copy(b"one"))
        found.copyist.put(copy(b"two"))
        wire = await found.wire()
        await wire.shakes_hands()
        await wire.hears(sent(b"one", b"two"))
        found.copyist.put(copy(b"three"))
        await wire.hears(sent(b"three"))
        await trio.sleep(1000)
        assert (len(found.dialled), found.dropped, wire.is_closed) == (1, [], False)
    assert wire.is_closed


async def test_heartbeats_where_there_is_nothing_to_send(autojump_clock: MockClock) -> None:
    async with exchange() as found:
        found.copyist.put(copy(b"one"))
        wire = await found.wire()
        await wire.shakes_hands(heartbeat=60)
        await wire.hears(sent(b"one"))
        start = trio.current_time()
        await wire.hears(HEARTBEAT_FRAME)
        await wire.hears(HEARTBEAT_FRAME)
        assert trio.current_time() - start == pytest.approx(60.0)


async def test_no_more_wait_than_may(autojump_clock: MockClock) -> None:
    async with exchange(backlog=2) as found:
        for body in (b"one", b"two", b"lost", b"lost too"):
            found.copyist.put(copy(body))
        assert found.dropped == [1, 1]
        wire = await found.wire()
        await wire.shakes_hands()
        await wire.hears(sent(b"one", b"two"))


async def test_a_broker_that_is_away_is_tried_less_and_less_often(
    autojump_clock: MockClock, log: list[structlog.typing.EventDict]
) -> None:
    async with exchange(backlog=10_000) as found:
        found.is_away = True
        expected = [FIRST_PAUSE * 2**doubled for doubled in range(6)] + [LAST_PAUSE] * 2
        while len(found.dialled) <= len(expected):
            found.copyist.put(copy(b"lost"))
            await trio.sleep(0.1)
        pauses = [later - sooner for sooner, later in zip(found.dialled, found.dialled[1:], strict=False)]
        assert pauses == pytest.approx(expected, abs=0.2)
        assert {event["reason"] for event in log} == {"nobody there"}
        assert sum(event["dropped"] for event in log) == sum(found.dropped) > 0


async def test_a_broker_that_says_nothing_is_given_up(
    autojump_clock: MockClock, log: list[structlog.typing.EventDict]
) -> None:
    async with exchange() as found:
        found.copyist.put(copy(b"lost"))
        wire = await found.wire()
        await wire.hears(HEADER)
        await trio.sleep(HANDSHAKE_TIMEOUT + 0.1)
        assert (found.dropped, wire.is_closed, log[0]["reason"]) == ([1], True, "no answer")


async def test_a_login_that_is_refused(autojump_clock: MockClock, log: list[structlog.typing.EventDict]) -> None:
    async with exchange() as found:
        found.copyist.put(copy(b"lost"))
        wire = await found.wire()
        await wire.hears(HEADER)
        await wire.says(ConnectionStart(mechanisms=b"PLAIN", locales=b"en_US"))
        await wire.hears(encode_method(0, START_OK))
        await wire.says(ConnectionClose(403, "ACCESS_REFUSED - no", 0, 0))
        await trio.sleep(0.1)
        assert (found.dropped, wire.is_closed, log[0]["reason"]) == ([1], True, "403 ACCESS_REFUSED - no")


async def test_a_close_is_answered_and_the_next_copy_goes_another_way(autojump_clock: MockClock) -> None:
    async with exchange() as found:
        found.copyist.put(copy(b"one"))
        first = await found.wire()
        await first.shakes_hands()
        await first.hears(sent(b"one"))
        await first.says(ConnectionClose(320, "CONNECTION_FORCED - shutdown", 0, 0))
        await first.hears(encode_method(0, ConnectionCloseOk()))
        await trio.sleep(FIRST_PAUSE + 0.1)
        assert first.is_closed
        found.copyist.put(copy(b"two"))
        second = await found.wire()
        await second.shakes_hands()
        await second.hears(sent(b"two"))


async def test_a_channel_that_is_closed_is_opened_again(autojump_clock: MockClock) -> None:
    async with exchange() as found:
        found.copyist.put(copy(b"lost"))
        wire = await found.wire()
        await wire.shakes_hands()
        await wire.hears(sent(b"lost"))
        await wire.says(NOT_FOUND, 1)
        await wire.hears(encode_method(1, ChannelCloseOk()) + encode_method(1, ChannelOpen()))
        await wire.says(ChannelOpenOk(), 1)
        assert found.dropped == [1]
        found.copyist.put(copy(b"found"))
        await wire.hears(sent(b"found"))
        assert len(found.dialled) == 1


async def test_what_comes_while_the_channel_is_opened_again_is_not_forgotten(autojump_clock: MockClock) -> None:
    async with exchange() as found:
        found.copyist.put(copy(b"lost"))
        wire = await found.wire()
        await wire.shakes_hands()
        await wire.hears(sent(b"lost"))
        await wire.says(NOT_FOUND, 1)
        await trio.sleep(0.1)  # now the close is answered, and nobody has heard the answer yet
        found.copyist.put(copy(b"found"))
        await trio.sleep(0.1)
        await wire.hears(encode_method(1, ChannelCloseOk()) + encode_method(1, ChannelOpen()))
        await wire.says(ChannelOpenOk(), 1)
        with trio.fail_after(5):
            await wire.hears(sent(b"found"))


async def test_what_could_not_be_sent_is_counted(autojump_clock: MockClock) -> None:
    async with exchange() as found:
        found.copyist.put(copy(b"one"))
        wire = await found.wire()
        await wire.shakes_hands()
        await wire.hears(sent(b"one"))
        wire.is_broken = True
        for _ in range(3):
            found.copyist.put(copy(b"lost"))
        await trio.sleep(0.1)
        assert sum(found.dropped) == 3

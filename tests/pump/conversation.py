"""One connection through a proxy, of which this process is both the client and the broker.

What one end receives is compared, byte by byte, with what the other has sent, as it comes.
"""

from __future__ import annotations

import re
import socket
import struct
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random

import trio

from amqproxy.amqp091.frame import BODY, HEADER, HEARTBEAT, METHOD, encode_method, every_frame
from amqproxy.amqp091.methods import (
    BY_INDEX,
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
    QueueDeclare,
    QueueDeclareOk,
)
from amqproxy.amqp091.protocol_header import HEADER as PROTOCOL_HEADER
from amqproxy.amqp091.wire import Table
from tests.pump.random_commands import SIZES, random_commands

PATIENCE = 30.0
"""Seconds in which what was sent arrives."""

CHANNELS = (1, 2)
FRAME_MAX = 131_072
HEARTBEATS = 0
"""None are expected, though some are sent: else the proxy would send its own for a client that is paused."""

LARGE = 100_000
TYPES = {METHOD: "method", HEADER: "header", BODY: "body", HEARTBEAT: "heartbeat"}
NAME = re.compile(rb"soak-(\d+)-")
FORCED = encode_method(0, ConnectionClose(320))[:13]
"""How the frame begins, but for its size at 3 to 6, that a proxy ends a leg with whose other leg is gone."""


class NotIdentical(Exception):
    """What has arrived is not what was sent."""


class NotArrived(Exception):
    """What was sent has not arrived."""


class End:
    """The client, or the broker: what it has sent that has not arrived yet; its frames by sender, type and method."""

    def __init__(self, name: str, stream: trio.SocketStream | None = None) -> None:
        self.name = name
        self.stream = stream
        self.outgoing = bytearray()
        self.counts: Counter[tuple[str, str, str]] = Counter()
        self.sizes = 0
        self.is_reading = trio.Event()
        self.is_reading.set()
        self.has_arrived = trio.Event()
        self.is_over = False
        self._contents: dict[int, str] = {}
        self._last = b""

    def count(self, data: bytes) -> None:
        """Note the frames that are about to be sent."""
        self.sizes += len(data)
        for frame in every_frame(data, 0):
            if frame.kind == METHOD:
                self._contents[frame.channel] = BY_INDEX[frame.index].name
            method = "" if frame.kind == HEARTBEAT else self._contents[frame.channel]
            self.counts[self.name, TYPES[frame.kind], method] += 1

    def arrive(self, data: bytes, other: End, is_torn: bool) -> None:
        """Compare what this end has received with what `other` has sent. Where a leg is torn, a close may follow."""
        expected = other.outgoing[: len(data)]
        if data == expected:
            del other.outgoing[: len(data)]
            self._last = (self._last + data)[-len(FORCED) :]
            if not other.outgoing:
                other.has_arrived.set()
            return
        same = next((at for at, (a, b) in enumerate(zip(data, expected, strict=False)) if a != b), len(expected))
        # The close may have begun as what was expected did, even in what was received before.
        seen, most = self._last + data, len(self._last) + same
        heads = [seen[at : at + len(FORCED)] for at in range(max(0, most - len(FORCED)), most + 1)]
        if not is_torn or not any(head[:3] == FORCED[:3] and head[7:] == FORCED[7 : len(head)] for head in heads):
            found, wanted = data[same : same + 40].hex(" "), bytes(expected[same : same + 40]).hex(" ")
            raise NotIdentical(f"{self.name}: {found} in place of {wanted}")
        other.outgoing.clear()


class Conversation:
    """The connection with this number, from its handshake to one of several ends, which `dice` choose.

    `explain` returns what the proxy knows of the connection of a name.
    """

    def __init__(
        self,
        number: int,
        port: int,
        dice: Random,
        accepted: dict[int, trio.Event],
        explain: Callable[[str], object] = lambda name: None,
    ) -> None:
        self._explain = explain
        self.number = number
        self.client = End("client")
        self.broker = End("server")
        self.is_torn = False
        self._dice = dice
        self._port = port
        self._accepted = accepted
        self._next_channel = CHANNELS[-1] + 1

    async def run(self, steps: int, pause: float, *, may_tear: bool) -> None:
        """Talk for so many steps, with a `pause` of so many seconds between two, on average; then end it."""
        await self._open()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read, self.client, self.broker)
            nursery.start_soon(self._read, self.broker, self.client)
            for number in CHANNELS:
                await self._ask(ChannelOpen(), ChannelOpenOk(), number)
            for _ in range(steps):
                await self._step()
                await trio.sleep(self._dice.expovariate(1 / pause))
            await self._arrived()
            await (self._tear() if may_tear and self._dice.random() < 0.6 else self._close())

    # --- what happens on it

    async def _step(self) -> None:
        dice = self._dice
        chance = dice.random()
        ends = self.client, self.broker
        if chance < 0.45:
            end = dice.choice(ends)
            await self._say(end, random_commands(dice, end is self.broker, SIZES, CHANNELS))
        elif chance < 0.7:
            async with trio.open_nursery() as nursery:
                for end in ends:
                    data = random_commands(dice, end is self.broker, SIZES, CHANNELS, 12)
                    nursery.start_soon(self._say, end, data)
        elif chance < 0.8:
            await self._ask(QueueDeclare(queue="soak"), QueueDeclareOk("soak", 0, 0), dice.choice(CHANNELS))
        elif chance < 0.86:
            number, self._next_channel = self._next_channel, self._next_channel % 2000 + 3
            await self._ask(ChannelOpen(), ChannelOpenOk(), number)
            await self._ask(ChannelClose(200, "", 0, 0), ChannelCloseOk(), number)
        elif chance < 0.92:
            end = dice.choice(ends)
            await self._say(end, random_commands(dice, end is self.broker, (LARGE,), CHANNELS, 2))
        elif chance < 0.97:
            await self._stall(*dice.sample(ends, 2))
        else:
            await trio.sleep(dice.uniform(0, 1))

    async def _stall(self, slow: End, quick: End) -> None:
        """One end reads nothing for a while, and the other fills the sockets."""
        slow.is_reading = trio.Event()
        async with trio.open_nursery() as nursery:
            data = random_commands(self._dice, quick is self.broker, (20 * LARGE // 16,), CHANNELS, 20)
            nursery.start_soon(self._say, quick, data)
            await trio.sleep(self._dice.choice([0.02, 0.3]))
            slow.is_reading.set()

    async def _ask(self, request: Method, answer: Method, channel: int) -> None:
        await self._arrived()
        await self._say(self.client, encode_method(channel, request))
        await self._arrived()
        await self._say(self.broker, encode_method(channel, answer))
        await self._arrived()

    async def _say(self, end: End, data: bytes) -> None:
        """Send whole frames, cut anywhere; or what is not counted, since the leg is torn."""
        assert end.stream is not None
        if not self.is_torn:
            end.count(data)
        at = 0
        while at < len(data):
            size = self._dice.choice([1, 7, 40, 1000, 60_000, len(data)])
            part = data[at : at + size]
            end.has_arrived = trio.Event()
            end.outgoing += part
            await end.stream.send_all(part)
            at += size
            if self._dice.random() < 0.3:
                await trio.lowlevel.checkpoint()

    async def _arrived(self) -> None:
        """Wait until all that was sent has arrived."""
        with trio.move_on_after(PATIENCE):
            for end in (self.client, self.broker):
                while end.outgoing:
                    await end.has_arrived.wait()
            return
        missing = {end.name: len(end.outgoing) for end in (self.client, self.broker)}
        known = await trio.to_thread.run_sync(self._explain, f"soak-{self.number}-")
        raise NotArrived(f"connection {self.number}: not yet arrived, by sender: {missing}; the proxy: {known}")

    async def _read(self, end: End, other: End) -> None:
        assert end.stream is not None
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while True:
                await end.is_reading.wait()
                data = await end.stream.receive_some(65_536)
                if not data:
                    break
                end.arrive(bytes(data), other, self.is_torn)
            if not (end.is_over or other.is_over):
                raise NotIdentical(f"{end.name}: the connection has ended, and the other end has not ended it")
        end.is_over = True

    # --- from beginning to end

    async def _open(self) -> None:
        sock = trio.socket.socket()
        await sock.connect(("127.0.0.1", self._port))
        client = self.client.stream = trio.SocketStream(sock)
        is_accepted = self._accepted[self.number] = trio.Event()
        properties = Table({"connection_name": f"soak-{self.number}-"})
        await client.send_all(PROTOCOL_HEADER)
        await _receive(client, encode_method(0, ConnectionStart()))
        self.client.count(encode_method(0, ConnectionStartOk(properties, "PLAIN", b"\0guest\0guest", "en_US")))
        await client.send_all(encode_method(0, ConnectionStartOk(properties, "PLAIN", b"\0guest\0guest", "en_US")))
        with trio.fail_after(PATIENCE):
            await is_accepted.wait()
        broker = self.broker.stream
        assert broker is not None
        tune, tune_ok = ConnectionTune(2047, FRAME_MAX, HEARTBEATS), ConnectionTuneOk(2047, FRAME_MAX, HEARTBEATS)
        for sender, receiver, methods in (
            (broker, client, [tune]),
            (client, broker, [tune_ok, ConnectionOpen("/")]),
            (broker, client, [ConnectionOpenOk()]),
        ):
            data = b"".join(encode_method(0, method) for method in methods)
            (self.client if sender is client else self.broker).count(data)
            await sender.send_all(data)
            await _receive(receiver, data)
        self.broker.count(encode_method(0, ConnectionStart()))

    async def _close(self) -> None:
        """In good order, by either end."""
        ends = self._dice.sample((self.client, self.broker), 2)
        for end in ends:
            end.is_over = True
        await self._say(ends[0], encode_method(0, ConnectionClose(200, "done")))
        await self._arrived()
        await self._say(ends[1], encode_method(0, ConnectionCloseOk()))
        await self._arrived()
        for end in ends:
            assert end.stream is not None
            await end.stream.aclose()

    async def _tear(self) -> None:
        """Hang up, half or whole, or reset; one end or both at once; maybe in the middle of something."""
        self.is_torn = True
        ends = self._dice.sample((self.client, self.broker), 2)
        how = self._dice.choice(["eof", "close", "reset", "both", "reset both"])
        if self._dice.random() < 0.5:
            data = random_commands(self._dice, ends[0] is self.broker, (*SIZES, LARGE), CHANNELS)
            with trio.move_on_after(PATIENCE), suppress(trio.BrokenResourceError):
                await self._say(ends[0], data[: self._dice.randint(1, len(data))])
        for end in ends:
            end.is_over = True
        for end in ends if "both" in how else ends[:1]:
            assert end.stream is not None
            if how == "eof":
                with suppress(trio.BrokenResourceError):
                    await end.stream.send_eof()
                continue
            if "reset" in how:
                end.stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await end.stream.aclose()
        await trio.sleep(self._dice.uniform(0, 0.1))
        for end in ends:
            assert end.stream is not None
            await end.stream.aclose()


async def broker(listener: trio.SocketListener, conversations: dict[int, Conversation]) -> None:
    """Accept what the proxy connects, and give each connection to the conversation whose client it is."""

    async def greet(stream: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await _receive(stream, PROTOCOL_HEADER)
            await stream.send_all(encode_method(0, ConnectionStart()))
            head = await _receive_frame(stream)
            found = NAME.search(head)
            assert found is not None
            one = conversations[int(found[1])]
            one.broker.stream = stream
            one._accepted[one.number].set()

    async with trio.open_nursery() as nursery:
        while True:
            nursery.start_soon(greet, await listener.accept())


async def _receive_frame(stream: trio.SocketStream) -> bytes:
    head = await _exactly(stream, 7)
    return head + await _exactly(stream, int.from_bytes(head[3:]) + 1)


async def _receive(stream: trio.SocketStream, expected: bytes) -> None:
    found = await _exactly(stream, len(expected))
    if found != expected:
        raise NotIdentical(f"handshake: {found!r} in place of {expected!r}")


async def _exactly(stream: trio.SocketStream, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = await stream.receive_some(size - len(data))
        if not more:
            raise trio.BrokenResourceError
        data += more
    return data

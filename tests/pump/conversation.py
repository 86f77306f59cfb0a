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

from tests.pump.amqp010.dialect import Amqp010Dialect
from tests.pump.amqp091.dialect import Amqp091Dialect
from tests.pump.amqp091.random_commands import SIZES
from tests.pump.dialect import HEAD, Dialect, Exchange

PATIENCE = 30.0
"""Seconds in which what was sent arrives."""

CHANNELS = (1, 2)
DIALECTS: tuple[Dialect, ...] = (Amqp091Dialect(), Amqp010Dialect())

LARGE = 100_000
NAME = re.compile(rb"soak-(\d+)-")


class NotIdentical(Exception):
    """What has arrived is not what was sent."""


class NotArrived(Exception):
    """What was sent has not arrived."""


class End:
    """The client, or the broker: what it has sent that has not arrived yet; its frames by sender, type and method."""

    def __init__(self, name: str, dialect: Dialect) -> None:
        self.name = name
        self.stream: trio.SocketStream | None = None
        self.outgoing = bytearray()
        self.counts: Counter[tuple[str, str, str]] = Counter()
        self.messages = 0
        self.sizes = 0
        self.is_reading = trio.Event()
        self.is_reading.set()
        self.has_arrived = trio.Event()
        self.is_over = False
        self._dialect = dialect
        self._contents: dict[int, str] = {}
        self._last = b""

    def count(self, data: bytes) -> None:
        """Note the frames that are about to be sent."""
        self.sizes += len(data)
        for kind, method, begins_message in self._dialect.kinds(data, self._contents):
            self.counts[self.name, kind, method] += 1
            self.messages += begins_message

    def arrive(self, data: bytes, other: End, is_torn: bool) -> None:
        """Compare what this end has received with what `other` has sent. Where a leg is torn, a close may follow."""
        expected = other.outgoing[: len(data)]
        if data == expected:
            del other.outgoing[: len(data)]
            self._last = (self._last + data)[-len(self._dialect.forced) :]
            if not other.outgoing:
                other.has_arrived.set()
            return
        same = next((at for at, (a, b) in enumerate(zip(data, expected, strict=False)) if a != b), len(expected))
        # The close may have begun as what was expected did, even in what was received before.
        seen, most = self._last + data, len(self._last) + same
        size = len(self._dialect.forced)
        heads = [seen[at : at + size] for at in range(max(0, most - size), most + 1)]
        if not is_torn or not any(self._is_forced(head) for head in heads):
            found, wanted = data[same : same + 40].hex(" "), bytes(expected[same : same + 40]).hex(" ")
            raise NotIdentical(f"{self.name}: {found} in place of {wanted}")
        other.outgoing.clear()

    def _is_forced(self, head: bytes) -> bool:
        """Is this how the proxy's close begins, of whatever size?"""
        forced, size = self._dialect.forced, self._dialect.forced_size
        return head[: size.start] == forced[: size.start] and head[size.stop :] == forced[size.stop : len(head)]


class Conversation:
    """The connection with this number, from its handshake to one of several ends, which `dice` choose, in a `dialect`.

    `explain` returns what the proxy knows of the connection of a name.
    """

    def __init__(
        self,
        number: int,
        port: int,
        dice: Random,
        accepted: dict[int, trio.Event],
        dialect: Dialect = DIALECTS[0],
        explain: Callable[[str], object] = lambda name: None,
    ) -> None:
        self._explain = explain
        self.number = number
        self.dialect = dialect
        self.client = End("client", dialect)
        self.broker = End("server", dialect)
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
                await self._ask(self.dialect.open_channel(number))
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
            await self._say(end, self.dialect.random_commands(dice, end is self.broker, SIZES, CHANNELS))
        elif chance < 0.7:
            async with trio.open_nursery() as nursery:
                for end in ends:
                    data = self.dialect.random_commands(dice, end is self.broker, SIZES, CHANNELS, 12)
                    nursery.start_soon(self._say, end, data)
        elif chance < 0.8:
            await self._ask(self.dialect.declare(dice.choice(CHANNELS)))
        elif chance < 0.86:
            number, self._next_channel = self._next_channel, self._next_channel % 2000 + 3
            await self._ask(self.dialect.open_channel(number))
            await self._ask(self.dialect.close_channel(number))
        elif chance < 0.92:
            end = dice.choice(ends)
            await self._say(end, self.dialect.random_commands(dice, end is self.broker, (LARGE,), CHANNELS, 2))
        elif chance < 0.97:
            await self._stall(*dice.sample(ends, 2))
        else:
            await trio.sleep(dice.uniform(0, 1))

    async def _stall(self, slow: End, quick: End) -> None:
        """One end reads nothing for a while, and the other fills the sockets."""
        slow.is_reading = trio.Event()
        async with trio.open_nursery() as nursery:
            data = self.dialect.random_commands(self._dice, quick is self.broker, (20 * LARGE // 16,), CHANNELS, 20)
            nursery.start_soon(self._say, quick, data)
            await trio.sleep(self._dice.choice([0.02, 0.3]))
            slow.is_reading.set()

    async def _ask(self, exchange: Exchange) -> None:
        await self._arrived()
        for end, data in zip((self.client, self.broker), exchange, strict=True):
            await self._say(end, data)
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
        dialect = self.dialect
        self.broker.count(dialect.start)
        await client.send_all(dialect.header)
        await _receive(client, dialect.answer + dialect.start)
        start_ok = dialect.start_ok(f"soak-{self.number}-")
        self.client.count(start_ok)
        await client.send_all(start_ok)
        with trio.fail_after(PATIENCE):
            await is_accepted.wait()
        broker = self.broker.stream
        assert broker is not None
        for sender, receiver, data in (
            (broker, client, dialect.tune),
            (client, broker, dialect.tune_ok),
            (broker, client, dialect.open_ok),
        ):
            (self.client if sender is client else self.broker).count(data)
            await sender.send_all(data)
            await _receive(receiver, data)

    async def _close(self) -> None:
        """In good order, by either end."""
        ends = self._dice.sample((self.client, self.broker), 2)
        for end in ends:
            end.is_over = True
        await self._say(ends[0], self.dialect.close)
        await self._arrived()
        await self._say(ends[1], self.dialect.close_ok)
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
            data = self.dialect.random_commands(self._dice, ends[0] is self.broker, (*SIZES, LARGE), CHANNELS)
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
            header = await _exactly(stream, len(DIALECTS[0].header))
            dialect = next(each for each in DIALECTS if each.header == header)
            await stream.send_all(dialect.answer + dialect.start)
            head = await _exactly(stream, HEAD)
            head += await _exactly(stream, dialect.frame_size(head) - HEAD)
            found = NAME.search(head)
            assert found is not None
            one = conversations[int(found[1])]
            one.broker.stream = stream
            one._accepted[one.number].set()

    async with trio.open_nursery() as nursery:
        while True:
            nursery.start_soon(greet, await listener.accept())


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

"""Two peers of a session that do at random what the protocol allows, and check all that they receive.

Each plays its side of two channels: whole contents and halves of them, consumers, channels that it closes and, as the
client, opens again. It answers what asks for an answer, as clients and brokers do.
"""

from __future__ import annotations

from random import Random

from amqproxy.amqp091.frame import BODY, HEADER, METHOD, Frame, encode_frame, encode_method, every_frame
from amqproxy.amqp091.methods import (
    BY_INDEX,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)
from amqproxy.amqp091.properties import ContentHeader
from tests.proxy.interceptor_transcript import Assembler
from tests.proxy.stage import Actor

CHANNELS = (1, 2)
FRAME_OVERHEAD = 8


class RandomPeer:
    """One peer: what it has open, what it has sent in part, and all that passed, for a test that fails."""

    def __init__(self, actor: Actor, dice: Random) -> None:
        self.actor = actor
        self.dice = dice
        self.channels = dict.fromkeys(CHANNELS, "open")
        self.is_consuming = dict.fromkeys(CHANNELS, False)
        self.has_closed = False
        """Has it sent connection.close?"""
        self.is_closed = False
        """Has the connection ended in good order?"""
        self.passed: list[str] = []
        self._unsent: dict[int, list[bytes]] = {}
        self._received = b""
        self._contents = Assembler()

    # --- what it sends

    def send(self, data: bytes) -> None:
        """Send bytes, if there still is a connection."""
        if self.actor.ending or self.actor.socket.fileno() < 0:
            return
        try:
            self.actor.socket.send(data)
        except (BrokenPipeError, ConnectionResetError):
            return
        self.passed += [f"> {frame!r}" for frame in every_frame(data, 0)]

    def act(self) -> None:
        """Do something on a channel."""
        if self.is_closed or self.has_closed:
            return
        channel = self.dice.choice(CHANNELS)
        state = self.channels.get(channel)
        if state is None:
            self.reopen(channel)
        elif state == "open" and self._unsent.get(channel):
            self.send(self._unsent[channel].pop(0))
        elif state == "open":
            self.act_on(channel, self.dice.random())

    def reopen(self, channel: int) -> None:
        """Open a channel that is closed, where that is this peer's part."""

    def act_on(self, channel: int, chance: float) -> None:
        """Do something on an open channel that has no content half sent."""

    def begin(self, channel: int, method: Method) -> None:
        """Send a content, or the first frame of it."""
        body = self.dice.choice([b"", b"abc", b"x" * 300])
        half = len(body) // 2
        frames = [encode_method(channel, method), encode_frame(HEADER, channel, ContentHeader(len(body)).encode())]
        frames += [encode_frame(BODY, channel, part) for part in (body[:half], body[half:]) if part]
        now = len(frames) if self.dice.random() < 0.3 else 1
        for frame in frames[:now]:
            self.send(frame)
        self._unsent[channel] = frames[now:]

    def complete(self, channel: int) -> None:
        """Send the rest of a content that is half sent."""
        for frame in self._unsent.pop(channel, []):
            self.send(frame)

    def complete_all(self) -> None:
        for channel in CHANNELS:
            if self.is_closed:
                self._unsent.clear()
            self.complete(channel)

    def close_channel(self, channel: int, code: int) -> None:
        self.channels[channel] = "closing"
        self.is_consuming[channel] = False
        self.send(encode_method(channel, ChannelClose(code, "", 0, 0)))

    def close(self) -> None:
        """Close the connection."""
        self.complete_all()
        self.has_closed = True
        self.send(encode_method(0, ConnectionClose(200, "", 0, 0)))

    # --- what it receives

    def receive(self) -> None:
        """Take what has come, check it, and answer it."""
        self._received += self.actor.look()
        while len(self._received) >= FRAME_OVERHEAD:
            size = int.from_bytes(self._received[3:7]) + FRAME_OVERHEAD
            if len(self._received) < size:
                return
            [frame] = every_frame(self._received[:size], 0)
            self._received = self._received[size:]
            self.passed.append(f"< {frame!r}")
            self._take(frame)

    def _take(self, frame: Frame) -> None:
        name = BY_INDEX[frame.index].name if frame.kind == METHOD else ""
        if self.is_closed and self.has_closed and name == "connection.close-ok":
            return  # both have closed
        assert not self.is_closed, f"{frame} after the end"
        self._contents.take(frame)
        if frame.channel == 0:
            self._take_on_connection(name)
            return
        assert frame.channel in self.channels or name == "channel.open", f"{frame} on a channel that is closed"
        self.take_on_channel(frame.channel, name)

    def _take_on_connection(self, name: str) -> None:
        if name == "connection.close":
            self.send(encode_method(0, ConnectionCloseOk()))
            self.is_closed = True
        elif name == "connection.close-ok":
            assert self.has_closed
            self.is_closed = True

    def take_on_channel(self, channel: int, name: str) -> None:
        """Answer a method on a channel; "" is any other frame."""
        if name == "channel.close" and not self.has_closed:
            self.complete(channel)
            self.send(encode_method(channel, ChannelCloseOk()))
            self.is_consuming[channel] = False
            if self.channels[channel] != "closing":
                del self.channels[channel]
        elif name == "channel.close-ok":
            assert self.channels[channel] == "closing"
            del self.channels[channel]


class RandomClient(RandomPeer):
    """Publishes, consumes, declares, closes channels and opens them again."""

    def reopen(self, channel: int) -> None:
        self.channels[channel] = "opening"
        self.send(encode_method(channel, ChannelOpen()))

    def act_on(self, channel: int, chance: float) -> None:
        if chance < 0.6:
            self.begin(channel, BasicPublish(exchange="x", routing_key=self.dice.choice(["a", "b", "bad"])))
        elif chance < 0.7:
            self.send(encode_method(channel, QueueDeclare(queue="q")))
        elif chance < 0.8 and not self.is_consuming[channel]:
            self.is_consuming[channel] = True
            self.send(encode_method(channel, BasicConsume(queue="q", consumer_tag=f"t{channel}")))
        elif chance < 0.9:
            self.close_channel(channel, 200)

    def take_on_channel(self, channel: int, name: str) -> None:
        if name == "channel.open-ok":
            assert self.channels[channel] == "opening"
            self.channels[channel] = "open"
        super().take_on_channel(channel, name)


class RandomBroker(RandomPeer):
    """Answers requests, delivers to consumers, and closes channels."""

    def __init__(self, actor: Actor, dice: Random) -> None:
        super().__init__(actor, dice)
        self._tags = dict.fromkeys(CHANNELS, 0)

    def act_on(self, channel: int, chance: float) -> None:
        if chance < 0.6 and self.is_consuming[channel]:
            self._tags[channel] += 1
            self.begin(channel, BasicDeliver(f"t{channel}", self._tags[channel], False, "x", "k"))
        elif 0.6 <= chance < 0.65:
            self.close_channel(channel, 404)

    def take_on_channel(self, channel: int, name: str) -> None:
        if name == "channel.open":
            assert channel not in self.channels, f"channel {channel} is opened twice"
            self.channels[channel], self.is_consuming[channel], self._tags[channel] = "open", False, 0
            self.send(encode_method(channel, ChannelOpenOk()))
        elif self.channels[channel] == "closing" or name not in ("basic.consume", "queue.declare"):
            super().take_on_channel(channel, name)
        elif name == "basic.consume":
            self.complete(channel)
            self.is_consuming[channel] = True
            self.send(encode_method(channel, BasicConsumeOk(f"t{channel}")))
        else:
            self.complete(channel)
            self.send(encode_method(channel, QueueDeclareOk("q")))

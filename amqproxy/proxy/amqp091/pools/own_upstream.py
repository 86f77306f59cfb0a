"""The upstream connection of a client that was pinned, on which its channels go on."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from amqproxy.amqp091.frame import METHOD, Frame, encode_method
from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicNack,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionOpenOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)
from amqproxy.proxy.amqp091.pools.pooled_channel import PooledChannel
from amqproxy.sockets.transport import Transport, TransportBroken

_CLOSES = (ChannelClose.index, ChannelCloseOk.index)
_CONFIRMS = (BasicAck.index, BasicNack.index)


class OwnUpstream:
    """The connection `transport`, whose virtual host is open.

    The broker counts the publishes of each channel anew, so that its confirms get the tags that the client expects.
    """

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self._offsets: dict[int, int] = {}
        self._leaving: set[int] = set()
        self._client_reader = FrameReader()
        self._tell: Callable[[bytes], None] = _ignore
        self._reader = FrameReader(frame_max=0)
        self._is_reading = True

    async def take_over(self, channels: Iterable[PooledChannel], answer: bytes) -> bytes:
        """Open the client's channels, and return what is for the client of all that the broker has sent.

        `answer` is the broker's answer to connection.open, which the client has got already, and all behind it.
        """
        known = {each.number: each for each in channels}
        awaited = {ConnectionOpenOk.index: 1}
        requests: list[bytes] = []
        for each in known.values():
            requests += self._opening(each, awaited)
            if each.is_confirming and each.confirms:
                self._offsets[each.number] = each.confirms
        if requests:
            await self.transport.send(b"".join(requests))
        found: list[bytes] = []
        data = answer
        while True:
            for frame in self._reader.feed(data):
                index = frame.index if frame.kind == METHOD else -1
                if awaited.get(index):
                    awaited[index] -= 1
                elif index == ChannelClose.index and awaited.get(QueueDeclareOk.index):
                    await self._open_again(known[frame.channel], awaited)
                else:
                    found.append(self._numbered(frame))
            if not any(awaited.values()) or any(is_close(each) for each in found):
                break
            data = await self.transport.receive()
            if not data:
                raise TransportBroken("closed by the broker")
        return b"".join(found) + self._end_reading()

    def _opening(self, channel: PooledChannel, awaited: dict[int, int]) -> list[bytes]:
        """Return the methods that open a channel, and count the answers to them.

        The broker has to know the queue that was last declared on it, for which "" stands: it is declared passively.
        """
        methods: list[Method] = [ChannelOpen()]
        answers = [ChannelOpenOk.index]
        if channel.is_confirming:
            methods.append(ConfirmSelect())
            answers.append(ConfirmSelectOk.index)
        if channel.last_queue:
            methods.append(QueueDeclare(0, channel.last_queue, passive=True))
            answers.append(QueueDeclareOk.index)
        for index in answers:
            awaited[index] = awaited.get(index, 0) + 1
        return [encode_method(channel.number, each) for each in methods]

    async def _open_again(self, channel: PooledChannel, awaited: dict[int, int]) -> None:
        """Open a channel that the broker has closed since its last declared queue is gone, without that."""
        awaited[QueueDeclareOk.index] -= 1
        channel.last_queue = ""
        methods = [encode_method(channel.number, ChannelCloseOk()), *self._opening(channel, awaited)]
        await self.transport.send(b"".join(methods))

    def let_go(self) -> None:
        """Drop the reference to the client, which is told nothing besides any more."""
        self._tell = _ignore

    async def receive(self) -> bytes:
        """Return what the broker sends, with the client's numbers of confirms.

        These are whole frames while the client may be told something besides.
        """
        while True:
            data = await self.transport.receive()
            if not self._is_reading or not data:
                return data
            output = b"".join([self._numbered(frame) for frame in self._reader.feed(data)])
            if self._reader.error is not None:
                raise TransportBroken(f"the broker does not keep to the protocol: {self._reader.error}")
            output += self._end_reading()
            if output:
                return output

    def _end_reading(self) -> bytes:
        """Read no more frames of the broker if bytes may pass as they are; return those of the frame that has begun."""
        if self._offsets or self._leaving:
            return b""
        self._is_reading = False
        return self._reader.held

    def _numbered(self, frame: Frame) -> bytes:
        """Return a frame of the broker with the client's number of the confirm, if it is one."""
        raw = frame.raw
        if frame.kind != METHOD or frame.channel not in self._offsets:
            return raw
        if frame.index in _CLOSES:  # a channel that is opened again counts from 1
            del self._offsets[frame.channel]
            return raw
        if frame.index not in _CONFIRMS:
            return raw
        tag = frame.delivery_tag + self._offsets[frame.channel]
        return raw[:11] + tag.to_bytes(8) + raw[19:]

    # --- what the client sends

    def let_leave(self, channels: Iterable[int], reader: FrameReader, tell: Callable[[bytes], None]) -> None:
        """Keep from the broker what the client sends on channels that the shared one has closed.

        `reader` reads the client's frames. A channel.close that has crossed the broker's is answered by `tell`.
        """
        self._leaving = set(channels)
        self._client_reader = reader
        self._tell = tell

    async def send_rest(self, partial: bytes, frames: Iterable[Frame]) -> None:
        """Send a message that was begun, and the frames that have been read already."""
        output = partial + self._without_leaving(frames)
        if not self._leaving:
            output += self._client_reader.held
        await self.transport.send(output)

    async def send(self, data: bytes | memoryview) -> None:
        if self._leaving:
            data = self._without_leaving(self._client_reader.feed(bytes(data)))
            if not self._leaving:
                data += self._client_reader.held
        await self.transport.send(data)

    def _without_leaving(self, frames: Iterable[Frame]) -> bytes:
        output = []
        for frame in frames:
            if frame.channel not in self._leaving:
                output.append(frame.raw)
            elif frame.kind == METHOD and frame.index == ChannelCloseOk.index:
                self._leaving.discard(frame.channel)
            elif frame.kind == METHOD and frame.index == ChannelClose.index:
                self._tell(encode_method(frame.channel, ChannelCloseOk()))
        return b"".join(output)

    @property
    def is_transparent(self) -> bool:
        """Whether all bytes pass as they are."""
        return not self._is_reading


def is_close(raw: bytes) -> bool:
    """Whether a frame is connection.close."""
    return raw[:1] == b"\x01" and raw[7:11] == b"\x00\x0a\x00\x32"


def _ignore(data: bytes) -> None:
    """Tell nobody."""

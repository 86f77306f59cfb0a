"""Messages as a capture: one connection on which each is got, which Wireshark and `amqproxy decode` read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from amqproxy.amqp091.commands import Command, CommandReader
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import Frame, encode_frame, encode_method
from amqproxy.amqp091.methods import (
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicPublish,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.decoded import Decoded, DecodedProtocolHeader
from amqproxy.capture.warnings import CaptureError
from amqproxy.export.packets import ExportedPackets
from amqproxy.moving.message_forwarder import CHANNEL, MoveFailed
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.workbench.held_message import HeldMessage

CONNECTION = "127.0.0.1:40000-127.0.0.1:5672"
"""Name of the connection that is made up."""

FRAME_MAX = 131_072
"""frame_max of that connection, in bytes."""


class MessageCapture:
    """Encodes messages of a queue as packets of a pcapng file; `begin` comes first."""

    def __init__(self, queue: str, vhost: str) -> None:
        self._queue = queue
        self._vhost = vhost
        self._packets = ExportedPackets()

    def begin(self) -> bytes:
        """Return the beginning of the file, with a login without credentials."""
        opening: list[tuple[Peer, int, Method]] = [
            (SERVER, 0, ConnectionStart()),
            (CLIENT, 0, ConnectionStartOk()),
            (SERVER, 0, ConnectionTune(2047, FRAME_MAX, 0)),
            (CLIENT, 0, ConnectionTuneOk(2047, FRAME_MAX, 0)),
            (CLIENT, 0, ConnectionOpen(self._vhost)),
            (SERVER, 0, ConnectionOpenOk()),
            (CLIENT, CHANNEL, ChannelOpen()),
            (SERVER, CHANNEL, ChannelOpenOk()),
        ]
        now = time.time_ns()
        first = DecodedProtocolHeader(now, 0, CONNECTION, CLIENT, "0-9-1", HEADER)
        rest = [_sent(sender, now, encode_method(channel, method)) for sender, channel, method in opening]
        written = self._packets.write(self._packets.see([first, *rest]))
        return self._packets.begin(f"messages of queue {self._queue!r}") + b"".join(written)

    def encode(self, message: HeldMessage) -> bytes:
        """Return the packets of a message, which is got at the present time."""
        now = time.time_ns()
        header = ContentHeader(len(message.body), message.properties).encode()
        frames = message.command.frames
        method = BasicGetOk(
            message.position + 1, message.is_redelivered, message.exchange, message.routing_key, message_count=0
        )
        answer = [encode_method(CHANNEL, method), encode_frame(2, CHANNEL, header), *[each.raw for each in frames[2:]]]
        pieces: list[Decoded] = [
            _sent(CLIENT, now, encode_method(CHANNEL, BasicGet(queue=self._queue))),
            _sent(SERVER, now, *answer),
        ]
        return b"".join(self._packets.write(self._packets.see(pieces)))


def _sent(sender: Peer, ts_ns: int, *frames: bytes) -> Amqp091DecodedFrames:
    return Amqp091DecodedFrames(ts_ns, 0, CONNECTION, sender, [Frame(each) for each in frames])


def messages_of_capture(path: Path) -> Iterator[HeldMessage]:
    """Yield the published, delivered and got messages of a capture; raise `MoveFailed` if it cannot be read.

    Messages of which bytes are missing are left out.
    """
    readers: dict[tuple[int, str, int], CommandReader] = {}
    position = 0
    try:
        for decoded in read_decoded([path]):
            if not isinstance(decoded, Amqp091DecodedFrames):
                continue
            for frame in decoded.frames:
                place = decoded.stream, decoded.sender, frame.channel
                reader = readers.setdefault(place, CommandReader())
                try:
                    command = reader.add(frame)
                except ProtocolError:
                    continue
                if command is not None and _has_message(command):
                    yield HeldMessage(_as_got(command), position)
                    position += 1
    except (CaptureError, OSError) as error:
        raise MoveFailed(f"{path} cannot be read: {error}") from None


def _has_message(command: Command) -> bool:
    is_whole = not any(frame.lost for frame in command.frames)
    return is_whole and isinstance(command.method, BasicGetOk | BasicDeliver | BasicPublish)


def _as_got(command: Command) -> Command:
    method = command.method
    got = BasicGetOk(0, getattr(method, "redelivered", False), method.exchange, method.routing_key, 0)
    return Command(CHANNEL, got, command.properties, command.body)

"""Messages as a capture: one connection on which each is got, which Wireshark and `amqproxy decode` read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from amqproxy.amqp091.commands import Command, CommandReader
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import BODY, METHOD, OVERHEAD, Frame, encode_frame, encode_method
from amqproxy.amqp091.frame import HEADER as HEADER_FRAME
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
from amqproxy.capture.decoded import Decoded, DecodedProtocolHeader, SkippedBytes
from amqproxy.capture.warnings import CaptureError
from amqproxy.export.packets import ExportedPackets
from amqproxy.moving.message_forwarder import CHANNEL, MoveFailed
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.workbench.held_message import HeldMessage
from amqproxy.workbench.queue_reader import LARGEST_BODY

CONNECTION = "127.0.0.1:40000-127.0.0.1:5672"
"""Name of the connection that is made up."""

FRAME_MAX = 131_072
"""frame_max of that connection, in bytes."""

LARGEST_PART = FRAME_MAX - OVERHEAD
"""Bytes of a body in one frame."""

MESSAGES = (BasicGetOk, BasicDeliver, BasicPublish)

_Place = tuple[int, str, int]
"""Stream, sender and channel."""


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
        method = BasicGetOk(
            message.position + 1, message.is_redelivered, message.exchange, message.routing_key, message_count=0
        )
        # The frames of the queue's connection may be larger than those of this one.
        bodies = [message.body[at : at + LARGEST_PART] for at in range(0, len(message.body), LARGEST_PART)]
        answer = [
            encode_method(CHANNEL, method),
            encode_frame(HEADER_FRAME, CHANNEL, header),
            *[encode_frame(BODY, CHANNEL, each) for each in bodies],
        ]
        pieces: list[Decoded] = [
            _sent(CLIENT, now, encode_method(CHANNEL, BasicGet(queue=self._queue))),
            _sent(SERVER, now, *answer),
        ]
        return b"".join(self._packets.write(self._packets.see(pieces)))


def _sent(sender: Peer, ts_ns: int, *frames: bytes) -> Amqp091DecodedFrames:
    return Amqp091DecodedFrames(ts_ns, 0, CONNECTION, sender, [Frame(each) for each in frames])


class CapturedMessages:
    """The published, delivered and got messages of a capture, as an iterator that raises `MoveFailed`.

    Messages of which something is missing are left out; `unreadable` counts the places, `reason` is that of the first.
    """

    def __init__(self, path: Path) -> None:
        self.unreadable = 0
        self.reason = ""
        self._path = path
        self._readers: dict[_Place, CommandReader] = {}
        self._begun: set[_Place] = set()
        """Places where a content has begun."""

    def check(self) -> None:
        """Raise `MoveFailed` if a message was left out."""
        if self.unreadable:
            raise MoveFailed(
                f"{self._path} cannot be read at {self.unreadable} places, whose messages were left out: {self.reason}"
            )

    def __iter__(self) -> Iterator[HeldMessage]:
        position = 0
        try:
            for decoded in read_decoded([self._path]):
                if isinstance(decoded, SkippedBytes):
                    self._miss(decoded.reason)
                if not isinstance(decoded, Amqp091DecodedFrames):
                    continue
                for frame in decoded.frames:
                    command = self._read((decoded.stream, decoded.sender, frame.channel), frame)
                    if command is not None:
                        yield HeldMessage(_as_got(command), position)
                        position += 1
        except (CaptureError, OSError) as error:
            raise MoveFailed(f"{self._path} cannot be read: {error}") from None
        for _ in self._begun:
            self._miss("a message without its end")

    def _read(self, place: _Place, frame: Frame) -> Command | None:
        """Return the message that a frame completes."""
        reader = self._readers.setdefault(place, CommandReader(LARGEST_BODY))
        if frame.kind == METHOD and place in self._begun:
            self._begun.discard(place)
            self._miss("a message without its end")
        try:
            command = reader.add(frame)
        except ProtocolError as error:
            self._begun.discard(place)
            self._miss(str(error))
            return None
        if command is None:
            if frame.kind == METHOD and isinstance(frame.method, MESSAGES):
                self._begun.add(place)
            return None
        self._begun.discard(place)
        if not isinstance(command.method, MESSAGES):
            return None
        if any(each.lost for each in command.frames):
            self._miss("a message of which bytes were not captured")
            return None
        return command

    def _miss(self, reason: str) -> None:
        self.unreadable += 1
        self.reason = self.reason or reason


def _as_got(command: Command) -> Command:
    method = command.method
    got = BasicGetOk(0, getattr(method, "redelivered", False), method.exchange, method.routing_key, 0)
    return Command(CHANNEL, got, command.properties, command.body)

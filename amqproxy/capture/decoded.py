"""What was decoded from a capture, in the order of the wire, and its records.

A frame is here as the bytes it was; nothing is decoded before it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from amqproxy.amqp091.frame import Frame
from amqproxy.taps.record import Record, record_frame


class DecodedFrames(msgspec.Struct, frozen=True, gc=False):
    """Frames of AMQP 0-9-1 that one packet completed, at least one.

    `stream` numbers the TCP connection in the file, `connection` names its ends, the client's first, and `sender` is
    "client" or "server". `ts_ns` is the packet's.
    """

    ts_ns: int
    stream: int
    connection: str
    sender: str
    frames: list[Frame]


class DecodedProtocolHeader(msgspec.Struct, frozen=True, gc=False):
    """The first bytes of a direction, which name its `protocol`: a protocol header, or what was sent in its place."""

    ts_ns: int
    stream: int
    connection: str
    sender: str
    protocol: str
    data: bytes


class SkippedBytes(msgspec.Struct, frozen=True, gc=False):
    """Bytes that could not be read as frames: `lost` of them, from `offset` on in their direction.

    `code` is the reply code that a peer would answer with, or None where the fault is not the sender's.
    """

    ts_ns: int
    stream: int
    connection: str
    sender: str
    protocol: str
    reason: str
    offset: int
    lost: int
    code: int | None = None
    channel: int | None = None


class StreamEnded(msgspec.Struct, frozen=True, gc=False):
    """Both directions of a stream are over, for the `reason` given; there is no record of it."""

    ts_ns: int
    stream: int
    connection: str
    reason: str


Decoded: TypeAlias = DecodedFrames | DecodedProtocolHeader | SkippedBytes | StreamEnded


def records_of(passed: Decoded, *, body: int = 0) -> Iterator[Record]:
    """The records of what passed, one a frame; of type "error" where a frame's payload turns out to be malformed.

    They contain the first `body` bytes of each body frame.
    """
    if isinstance(passed, DecodedFrames):
        for frame in passed.frames:
            yield record_frame(
                frame,
                ts_ns=passed.ts_ns,
                stream=passed.stream,
                connection=passed.connection,
                sender=passed.sender,
                body=body,
            )
        return
    if isinstance(passed, StreamEnded):
        return
    record = Record(
        ts_ns=passed.ts_ns,
        stream=passed.stream,
        connection=passed.connection,
        sender=passed.sender,
        protocol=passed.protocol,
        type="protocol-header",
    )
    if isinstance(passed, DecodedProtocolHeader):
        record.size = len(passed.data)
    else:
        record.type = "error"
        record.channel, record.code, record.reason = passed.channel, passed.code, passed.reason
        record.offset, record.lost = passed.offset, passed.lost
    yield record

"""What was decoded from a capture, in the order of the wire, and its records.

A frame is here as the bytes it was; nothing is decoded before it is asked for. What is from a recording of the proxy's
has the `leg` that it passed on, "client" or "upstream"; else that is "".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self, TypeAlias

import msgspec

from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.record import Record


class DecodedFrames(msgspec.Struct, frozen=True, gc=False):
    """Frames of one connection that one packet completed, at least one; each protocol has a class of its own.

    `stream` numbers the TCP connection in the file, `connection` names its ends, the client's first, and `sender` is
    "client" or "server". `ts_ns` is the packet's. `note` is the verdict of rules on the command that the frames belong
    to, as a recording of the proxy has it.
    """

    protocol: ClassVar[str]

    ts_ns: int
    stream: int
    connection: str
    sender: str
    frames: Sequence[Any]
    leg: str = ""
    note: Note = NOTHING

    def at(self, places: Sequence[int]) -> Self:
        """Return the frames at these places."""
        raise NotImplementedError

    def records(self, body: int) -> Iterator[Record]:
        """Yield the record of each frame, with the first `body` bytes of body frames."""
        raise NotImplementedError


class DecodedProtocolHeader(msgspec.Struct, frozen=True, gc=False):
    """The first bytes of a direction, which name its `protocol`: a protocol header, or what was sent in its place."""

    ts_ns: int
    stream: int
    connection: str
    sender: str
    protocol: str
    data: bytes
    leg: str = ""


class SkippedBytes(msgspec.Struct, frozen=True, gc=False):
    """Bytes that could not be read as frames: `lost` of them, from `offset` on in their direction, where that is known.

    `code` is the reply code that a peer would answer with, or None where the fault is not the sender's. `data` are the
    bytes, where they are all in the capture and not too many.
    """

    ts_ns: int
    stream: int
    connection: str
    sender: str
    protocol: str
    reason: str
    offset: int | None
    lost: int
    code: int | None = None
    channel: int | None = None
    data: bytes = b""
    leg: str = ""


class StreamEnded(msgspec.Struct, frozen=True, gc=False):
    """Both directions of a stream are over, for the `reason` given; there is no record of it.

    `stalled_ns` is for how long the server has received nothing until then, though it was sent something.
    """

    ts_ns: int
    stream: int
    connection: str
    reason: str
    leg: str = ""
    stalled_ns: int = 0


Decoded: TypeAlias = DecodedFrames | DecodedProtocolHeader | SkippedBytes | StreamEnded


def records_of(passed: Decoded, *, body: int = 0, has_both_legs: bool = False) -> Iterator[Record]:
    """The records of what passed, one a frame; of type "error" where a frame's payload turns out to be malformed.

    They contain the first `body` bytes of each body frame. They name the leg that a frame was on as they do while the
    proxy runs: if the two legs differ. If what passed is of both legs, they always do.
    """
    if isinstance(passed, DecodedFrames):
        for record in passed.records(body):
            if has_both_legs:
                record.leg = passed.leg or None
            yield record
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
    if has_both_legs:
        record.leg = passed.leg or None
    if isinstance(passed, DecodedProtocolHeader):
        record.size = len(passed.data)
    else:
        record.type = "error"
        record.channel, record.code, record.reason = passed.channel, passed.code, passed.reason
        record.offset, record.lost = passed.offset, passed.lost
    yield record

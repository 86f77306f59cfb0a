"""What was decoded from a capture, in the order of the wire, and its records.

A frame is here as the bytes it was; nothing is decoded before it is asked for. What is from a recording of the proxy's
has the `leg` that it passed on, "client" or "upstream"; else that is "".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import msgspec

from amqproxy.amqp010.frame import Frame as Amqp010Frame
from amqproxy.amqp091.frame import Frame
from amqproxy.taps.amqp010_record import record_amqp010_frame
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.record import Record, record_frame


class DecodedFrames(msgspec.Struct, frozen=True, gc=False):
    """Frames of AMQP 0-9-1 that one packet completed, at least one.

    `stream` numbers the TCP connection in the file, `connection` names its ends, the client's first, and `sender` is
    "client" or "server". `ts_ns` is the packet's. `note` is what rules have made of the command that they belong to, as
    a recording of the proxy's shows it.
    """

    ts_ns: int
    stream: int
    connection: str
    sender: str
    frames: Sequence[Frame]
    leg: str = ""
    note: Note = NOTHING


class DecodedAmqp010Frames(msgspec.Struct, frozen=True, gc=False):
    """Frames of AMQP 0-10 that one packet completed, at least one; the rest is as in `DecodedFrames`.

    `command_ids` has for each the id of the command that it is of, or None: of a control, or where it is not known.
    """

    ts_ns: int
    stream: int
    connection: str
    sender: str
    frames: Sequence[Amqp010Frame]
    command_ids: Sequence[int | None]
    leg: str = ""
    note: Note = NOTHING


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


Decoded: TypeAlias = DecodedFrames | DecodedAmqp010Frames | DecodedProtocolHeader | SkippedBytes | StreamEnded


def records_of(passed: Decoded, *, body: int = 0, has_both_legs: bool = False) -> Iterator[Record]:
    """The records of what passed, one a frame; of type "error" where a frame's payload turns out to be malformed.

    They contain the first `body` bytes of each body frame. They name the leg that a frame was on as they do while the
    proxy runs: if the two legs differ. If what passed is of both legs, they always do.
    """
    if isinstance(passed, DecodedFrames):
        for frame in passed.frames:
            record = record_frame(
                frame,
                ts_ns=passed.ts_ns,
                stream=passed.stream,
                connection=passed.connection,
                sender=passed.sender,
                note=passed.note,
                body=body,
            )
            if has_both_legs:
                record.leg = passed.leg or None
            yield record
        return
    if isinstance(passed, DecodedAmqp010Frames):
        for each, command_id in zip(passed.frames, passed.command_ids, strict=True):
            record = record_amqp010_frame(
                each,
                ts_ns=passed.ts_ns,
                stream=passed.stream,
                connection=passed.connection,
                sender=passed.sender,
                command_id=command_id,
                note=passed.note,
                body=body,
            )
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

"""Items decoded from a capture, in the order of the wire, and their records.

Frames are kept as bytes; nothing is decoded until it is requested. In a recording of the proxy, `leg` is the one that
an item passed on, "client" or "upstream"; otherwise it is "".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self, TypeAlias, TypeVar

import msgspec

from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.record import Record
from amqproxy.taps.trace.snapshot import ConnectionSnapshot

T = TypeVar("T")


class DecodedFrames(msgspec.Struct, frozen=True, gc=False):
    """Frames of one connection completed by one packet, at least one; each protocol has its own subclass.

    `stream` is the number of the TCP connection in the file, `connection` names its ends, the client's first, and
    `sender` is "client" or "server". `ts_ns` is the packet's. `note` is the verdict of rules on the command that the
    frames belong to, as stored in a recording of the proxy; `snapshot` is the state of the connection before the
    frames, if it is stored there.
    """

    protocol: ClassVar[str]
    end_bytes: ClassVar[int]
    """Bytes of a frame after its payload."""

    ts_ns: int
    stream: int
    connection: str
    sender: str
    frames: Sequence[Any]
    leg: str = ""
    note: Note = NOTHING
    command_ids: Sequence[int | None] = ()
    """The id of each frame's command, None if it has none or that is unknown; empty if the protocol has none."""
    snapshot: ConnectionSnapshot | None = None

    def at(self, places: Sequence[int]) -> Self:
        """Return the frames at these places."""
        numbers = self.command_ids
        return msgspec.structs.replace(
            self,
            frames=[self.frames[place] for place in places],
            command_ids=[numbers[place] for place in places] if numbers else (),
        )

    def unnumbered(self) -> Self | None:
        """Return the frames without those that number later ones, which are wrong if frames are left out."""
        return self

    def records(self, body: int) -> Iterator[Record]:
        """Yield the record of each frame, with the first `body` bytes of body frames."""
        raise NotImplementedError

    @property
    def is_beginning(self) -> bool:
        """Whether the first frame is the first of a connection after its protocol header."""
        raise NotImplementedError

    def client_name(self) -> str | None:
        """Return the client's name for its connection, "" if it gives none; None unless one of the frames tells it."""
        raise NotImplementedError

    def places(self) -> Iterator[tuple[int, bool, bool]]:
        """Yield of each frame its channel, whether it is on a track beside the commands, and if it begins a command."""
        raise NotImplementedError

    def is_heartbeat(self, frame: Any) -> bool:
        """Whether one of the frames is a heartbeat."""
        raise NotImplementedError

    def masked(self, data: bytes) -> bytes:
        """Return the bytes of some of the frames with their secrets masked."""
        raise NotImplementedError

    def pieces(self) -> Iterator[tuple[bytes, int]]:
        """Yield the masked bytes of the frames up to each loss, with the number of bytes missing there."""
        gathered: list[bytes] = []
        for frame in self.frames:
            if frame.lost:
                missing = frame.lost + self.end_bytes
                yield self.masked(b"".join([*gathered, frame.raw[:-missing]])), missing
                gathered = []
            else:
                gathered.append(frame.raw)
        if gathered:
            yield self.masked(b"".join(gathered)), 0


class DecodedProtocolHeader(msgspec.Struct, frozen=True, gc=False):
    """The first bytes of a direction, which determine its `protocol`: a protocol header, or bytes sent in its place."""

    ts_ns: int
    stream: int
    connection: str
    sender: str
    protocol: str
    data: bytes
    leg: str = ""


class SkippedBytes(msgspec.Struct, frozen=True, gc=False):
    """Bytes that could not be read as frames: `lost` of them, from `offset` in their direction, if known.

    `code` is the reply code that a peer would answer with, or None if the sender is not at fault. `data` holds the
    bytes, if all of them are in the capture and they are not too many.
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

    @property
    def is_other_whole(self) -> bool:
        """Whether the bytes of the other peer up to here are known to be whole.

        A recorder that was too slow does not know whose frames it missed: it notes 0 bytes (`RecorderTap.saw_gap`).
        """
        return self.lost > 0 and self.code is None


class StreamEnded(msgspec.Struct, frozen=True, gc=False):
    """The end of both directions of a stream, with its `reason`; it has no record.

    `stalled_ns` is the longest time for which the server has accepted no data, although some was sent to it, and
    `stalled_until_ns` its end.
    """

    ts_ns: int
    stream: int
    connection: str
    reason: str
    leg: str = ""
    stalled_ns: int = 0
    stalled_until_ns: int = 0


Decoded: TypeAlias = DecodedFrames | DecodedProtocolHeader | SkippedBytes | StreamEnded


def is_upstream_only(decoded: Decoded) -> bool:
    """Whether this passed on the upstream leg alone, in a recording of both legs."""
    if isinstance(decoded, DecodedFrames):
        return decoded.note.leg == "upstream"
    return isinstance(decoded, SkippedBytes) and decoded.code is not None


def records_of(passed: Decoded, *, body: int = 0, has_both_legs: bool = False) -> Iterator[Record]:
    """Yield the records of an item, one per frame; of type "error" if a frame's payload turns out to be malformed.

    They contain the first `body` bytes of each body frame. They name the leg of a frame as records of live traffic do:
    if the two legs differ. With `has_both_legs`, they always name it.
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

"""What was decoded, as a capture again: a recording of what is selected, which Wireshark and amqproxy read.

The packets are made anew, around the bytes of the frames: no packet of the original is kept, none is sent again or out
of order, and secrets of logins are masked. Bytes that are missing are missing here, too: as a gap in the sequence
numbers, or at the end of a packet, as those of truncated bodies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version

from amqproxy.amqp010.controls import ConnectionStart as Amqp010Start
from amqproxy.amqp010.frame import OVERHEAD as AMQP010_OVERHEAD
from amqproxy.amqp010.frame import Frame as Amqp010Frame
from amqproxy.amqp010.protocol_header import NAME as AMQP010
from amqproxy.amqp091.frame import METHOD, Frame
from amqproxy.amqp091.methods import ConnectionStart
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.amqp010.secrets import masked as amqp010_masked
from amqproxy.capture.amqp010.secrets import masked_rubbish as amqp010_masked_rubbish
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.amqp091.frame_cuts import segments
from amqproxy.capture.amqp091.secrets import masked, masked_rubbish
from amqproxy.capture.decoded import Decoded, DecodedFrames, DecodedProtocolHeader, SkippedBytes, StreamEnded
from amqproxy.capture.packet_comment import comment_of, ended_comment, lost_comment, session_comment, violation_comment
from amqproxy.capture.pcapng import LEGS
from amqproxy.capture.pcapng_writer import (
    INBOUND,
    OUTBOUND,
    interface_description,
    packet,
    packet_options,
    section_header,
)
from amqproxy.capture.synthetic_tcp import CLIENT as CLIENT_END
from amqproxy.capture.synthetic_tcp import MAX_SEGMENT_BYTES, SyntheticTCP
from amqproxy.capture.synthetic_tcp import SERVER as SERVER_END
from amqproxy.recording.leg_addresses import addresses_of
from amqproxy.taps.note import NOTHING

_DESCRIPTION = "amqproxy: what was exported of a capture"
_TICK_NS = 4096
"""Sequence numbers begin where this clock is, as those of real connections do."""

_LATEST_NS = (1 << 64) - 1
"""What a file can have as a time; those of captures with broken clocks may be before 1970, or later than that."""

_HEAD = 7
"""Bytes of a frame before its payload."""


class ExportedPackets:
    """Makes the blocks of a pcapng file of what was decoded.

    `begin` comes first; `see` is shown all that was decoded, `write` what of it is selected.
    """

    def __init__(self) -> None:
        self._is_joined: dict[int, bool] = {}
        self._connections: dict[int, _Connection] = {}

    def begin(self, comment: str) -> bytes:
        """What the file begins with; the comment says what was selected."""
        header = section_header(program=f"amqproxy {version('amqproxy')}", comment=comment)
        return header + b"".join([interface_description(leg, _DESCRIPTION) for leg in LEGS])

    def see(self, decoded: Iterable[Decoded]) -> Iterator[Decoded]:
        """The same, once it is known of each connection whether its beginning was captured."""
        for each in decoded:
            if each.stream not in self._is_joined:
                self._is_joined[each.stream] = not _is_beginning(each)
            yield each
            if isinstance(each, StreamEnded):
                del self._is_joined[each.stream]

    def write(self, decoded: Iterable[Decoded]) -> Iterator[bytes]:
        """The packets of what is selected."""
        for each in decoded:
            connection = self._connections.get(each.stream)
            if isinstance(each, StreamEnded):
                if connection is not None:
                    yield from connection.end(each.ts_ns, each.reason)
                    del self._connections[each.stream]
                continue
            if connection is None:
                connection = self._connections[each.stream] = _Connection(each)
                if not self._is_joined.get(each.stream, True):
                    yield from connection.open(each.ts_ns)
            yield from connection.write(each)


def _is_beginning(decoded: Decoded) -> bool:
    """Is this what a connection begins with?"""
    if isinstance(decoded, DecodedProtocolHeader):
        return True
    if isinstance(decoded, Amqp010DecodedFrames):
        return bool(decoded.frames[0].index == Amqp010Start.index)
    if not isinstance(decoded, Amqp091DecodedFrames):
        return False
    first = decoded.frames[0]
    return bool(first.kind == METHOD and first.index == ConnectionStart.index)


class _Connection:
    """One TCP connection."""

    def __init__(self, first: Decoded) -> None:
        self._leg = first.leg or LEGS[0]
        client, server = addresses_of(first.connection, first.stream, self._leg)
        self._tcp = SyntheticTCP(client, server, first.ts_ns // _TICK_NS + first.stream)
        self._lost: dict[int, int] = {}
        self._introduction: tuple[str, ...] = (
            session_comment(
                first.stream,
                self._leg,
                f"{self._tcp.client}-{self._tcp.server}",
                session=first.connection,
                is_tls=False,
                is_amqp010=isinstance(first, Amqp010DecodedFrames)
                or (isinstance(first, DecodedProtocolHeader | SkippedBytes) and first.protocol == AMQP010),
            ),
        )

    def open(self, ts_ns: int) -> Iterator[bytes]:
        for end, header in self._tcp.handshake():
            yield self._packet(ts_ns, end, header)

    def write(self, decoded: DecodedFrames | DecodedProtocolHeader | SkippedBytes) -> Iterator[bytes]:
        end = CLIENT_END if decoded.sender == CLIENT else SERVER_END
        ts_ns = decoded.ts_ns
        match decoded:
            case Amqp091DecodedFrames():
                comments = () if decoded.note == NOTHING else (comment_of(decoded.note),)
                for data, missing in _pieces(decoded.frames):
                    yield from self._send(ts_ns, end, masked(data), missing, comments)
            case Amqp010DecodedFrames():
                comments = () if decoded.note == NOTHING else (comment_of(decoded.note),)
                for data, missing in _amqp010_pieces(decoded.frames):
                    if decoded.sender == CLIENT:
                        data = amqp010_masked(data)
                    yield from self._send(ts_ns, end, data, missing, comments)
            case DecodedProtocolHeader():
                yield from self._send(ts_ns, end, decoded.data)
            case SkippedBytes(code=int(code), lost=0) if decoded.data:  # as a recording had it
                violation = violation_comment(decoded.sender, code, decoded.reason, decoded.channel, decoded.offset)
                yield from self._send(ts_ns, end, _masked_rubbish(decoded), comments=(violation,))
            case SkippedBytes() if decoded.data and len(decoded.data) == decoded.lost:
                yield from self._send(ts_ns, end, _masked_rubbish(decoded))
            case SkippedBytes():
                self._tcp.skip(end, decoded.lost)
                self._lost[end] = self._lost.get(end, 0) + decoded.lost

    def end(self, ts_ns: int, reason: str) -> Iterator[bytes]:
        """What ends the connection; nothing, where its end is not in the capture."""
        if "closed" in reason or "reset" in reason:
            by = CLIENT_END if reason.startswith(CLIENT) else SERVER_END
            comments: tuple[str, ...] = (ended_comment(reason),)
            for end, header in self._tcp.reset(by) if "reset" in reason else self._tcp.close(by):
                yield self._packet(ts_ns, end, header, comments)
                comments = ()

    def _send(
        self, ts_ns: int, end: int, data: bytes, missing: int = 0, comments: tuple[str, ...] = ()
    ) -> Iterator[bytes]:
        """The packets of these bytes, and of `missing` more behind them."""
        lost_before = self._lost.pop(end, 0)
        if lost_before:  # so that a reader need not wait for them
            comments = (lost_comment(1, lost_before), *comments)
        view = memoryview(data)
        for start, _, stop in segments(data, MAX_SEGMENT_BYTES, -1):
            lost = missing if stop == len(data) else 0
            cut = min(lost, MAX_SEGMENT_BYTES - (stop - start))  # what one packet can have lost
            header = self._tcp.data(end, stop - start + cut)
            yield self._packet(ts_ns, end, header, comments, view[start:stop], cut)
            self._tcp.skip(end, lost - cut)
        header = self._tcp.acknowledgement(end)
        if header:
            yield self._packet(ts_ns, 1 - end, header)

    def _packet(
        self,
        ts_ns: int,
        end: int,
        header: bytes,
        comments: tuple[str, ...] = (),
        data: bytes | memoryview = b"",
        missing: int = 0,
    ) -> bytes:
        comments, self._introduction = (*self._introduction, *comments), ()
        is_inbound = (end == CLIENT_END) == (self._leg == LEGS[0])
        options = packet_options(INBOUND if is_inbound else OUTBOUND, comments)
        ts_ns = min(max(ts_ns, 0), _LATEST_NS)
        return b"".join(packet(LEGS.index(self._leg), ts_ns, header, data, missing, options))


def _pieces(frames: Sequence[Frame]) -> Iterator[tuple[bytes, int]]:
    """The bytes of frames, up to where some are missing, with how many those are."""
    gathered: list[bytes] = []
    for frame in frames:
        if frame.lost:
            raw = frame.raw
            gathered.append(raw[: _HEAD + frame.size - frame.lost])
            yield b"".join(gathered), frame.lost + 1
            gathered = []
        else:
            gathered.append(frame.raw)
    if gathered:
        yield b"".join(gathered), 0


def _amqp010_pieces(frames: Sequence[Amqp010Frame]) -> Iterator[tuple[bytes, int]]:
    """The same of frames of 0-10, which end with their payload."""
    gathered: list[bytes] = []
    for frame in frames:
        if frame.lost:
            gathered.append(frame.raw[: AMQP010_OVERHEAD + frame.size - frame.lost])
            yield b"".join(gathered), frame.lost
            gathered = []
        else:
            gathered.append(frame.raw)
    if gathered:
        yield b"".join(gathered), 0


def _masked_rubbish(skipped: SkippedBytes) -> bytes:
    mask = amqp010_masked_rubbish if skipped.protocol == AMQP010 else masked_rubbish
    return mask(skipped.data)

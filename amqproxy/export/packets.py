"""Decoded traffic as a capture again: a recording of the selection, which Wireshark and amqproxy read.

The packets are rebuilt around the bytes of the frames: no original packet is kept, none is retransmitted or out of
order, and secrets of logins are masked. Missing bytes stay missing: as a gap in the sequence numbers, or at the end of
a packet, as with truncated bodies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import version

from amqproxy.capture.amqp091.frame_cuts import segments
from amqproxy.capture.decoded import Decoded, DecodedFrames, DecodedProtocolHeader, SkippedBytes, StreamEnded
from amqproxy.capture.dialects import masked_rubbish, protocol_of
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
from amqproxy.peer import CLIENT
from amqproxy.recording.leg_addresses import addresses_of
from amqproxy.taps.note import NOTHING

_DESCRIPTION = "amqproxy: what was exported of a capture"
_TICK_NS = 4096
"""Clock unit from which initial sequence numbers are derived, as real TCP stacks do."""

_LATEST_NS = (1 << 64) - 1
"""Latest timestamp of a pcapng file; captures with broken clocks may hold later ones, or times before 1970."""


class ExportedPackets:
    """Encodes decoded traffic as the blocks of a pcapng file.

    `begin` comes first; `see` processes all decoded traffic, `write` the selection.
    """

    def __init__(self) -> None:
        self._is_joined: dict[int, bool] = {}
        self._connections: dict[int, _Connection] = {}

    def begin(self, comment: str) -> bytes:
        """Return the beginning of the file; the comment describes the selection."""
        header = section_header(program=f"amqproxy {version('amqproxy')}", comment=comment)
        return header + b"".join([interface_description(leg, _DESCRIPTION) for leg in LEGS])

    def see(self, decoded: Iterable[Decoded]) -> Iterator[Decoded]:
        """Yield the input unchanged, after noting of each connection whether its beginning was captured."""
        for each in decoded:
            if each.stream not in self._is_joined:
                self._is_joined[each.stream] = not _is_beginning(each)
            yield each
            if isinstance(each, StreamEnded):
                del self._is_joined[each.stream]

    def write(self, decoded: Iterable[Decoded], comments: tuple[str, ...] = ()) -> Iterator[bytes]:
        """Yield the packets of the selection, with `comments` on each."""
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
            yield from connection.write(each, comments)


def _is_beginning(decoded: Decoded) -> bool:
    """Whether this is the beginning of a connection."""
    return isinstance(decoded, DecodedProtocolHeader) or (isinstance(decoded, DecodedFrames) and decoded.is_beginning)


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
                protocol=protocol_of(first),
            ),
        )

    def open(self, ts_ns: int) -> Iterator[bytes]:
        for end, header in self._tcp.handshake():
            yield self._packet(ts_ns, end, header)

    def write(
        self, decoded: DecodedFrames | DecodedProtocolHeader | SkippedBytes, marks: tuple[str, ...]
    ) -> Iterator[bytes]:
        end = CLIENT_END if decoded.sender == CLIENT else SERVER_END
        ts_ns = decoded.ts_ns
        match decoded:
            case DecodedFrames():
                note = decoded.note.uncommented
                comments = (*(() if note is NOTHING else (comment_of(note),)), *decoded.note.comments, *marks)
                for data, missing in decoded.pieces():
                    yield from self._send(ts_ns, end, data, missing, comments)
            case DecodedProtocolHeader():
                yield from self._send(ts_ns, end, decoded.data, comments=marks)
            case SkippedBytes(code=int(code), lost=0) if decoded.data:  # as in a recording
                violation = violation_comment(decoded.sender, code, decoded.reason, decoded.channel, decoded.offset)
                yield from self._send(ts_ns, end, masked_rubbish(decoded), comments=(violation, *marks))
            case SkippedBytes() if decoded.data and len(decoded.data) == decoded.lost:
                yield from self._send(ts_ns, end, masked_rubbish(decoded), comments=marks)
            case SkippedBytes():
                self._tcp.skip(end, decoded.lost)
                self._lost[end] = self._lost.get(end, 0) + decoded.lost

    def end(self, ts_ns: int, reason: str) -> Iterator[bytes]:
        """Yield the packets that close the connection; none if its end is not in the capture."""
        if "closed" in reason or "reset" in reason:
            by = CLIENT_END if reason.startswith(CLIENT) else SERVER_END
            comments: tuple[str, ...] = (ended_comment(reason),)
            for end, header in self._tcp.reset(by) if "reset" in reason else self._tcp.close(by):
                yield self._packet(ts_ns, end, header, comments)
                comments = ()

    def _send(
        self, ts_ns: int, end: int, data: bytes, missing: int = 0, comments: tuple[str, ...] = ()
    ) -> Iterator[bytes]:
        """Yield the packets of data, followed by `missing` lost bytes."""
        lost_before = self._lost.pop(end, 0)
        if lost_before:  # so that a reader need not wait for the lost bytes
            comments = (lost_comment(1, lost_before), *comments)
        view = memoryview(data)
        for start, _, stop in segments(data, MAX_SEGMENT_BYTES, -1):
            lost = missing if stop == len(data) else 0
            cut = min(lost, MAX_SEGMENT_BYTES - (stop - start))  # the most that one packet can have lost
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

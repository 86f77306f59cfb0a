"""Recorded traffic of other peers, direction by direction, and what others make of it (captures/README.md)."""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from amqproxy.amqp010.assembly import Assembly, AssemblyReader
from amqproxy.amqp010.frame import Frame
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.capture.decode import CaptureReading, read_decoded
from amqproxy.capture.decoded import Decoded
from amqproxy.capture.files import files_of, read_packets
from amqproxy.capture.packets import Dissector, TCPSegment
from amqproxy.capture.pcap import Packet
from amqproxy.capture.reassembly import Reassembler
from amqproxy.capture.stream_events import Data, Opened

FOLDER = Path(__file__).with_name("captures")

QPIDD = "qpidd1.40__qpidpy-010-types"
JMS = tuple(f"brokerj9.2__jms-010-{what}" for what in ("types", "tx", "request-reply", "errors"))
NEGOTIATIONS = ("qpidd1.40__version-negotiation", "brokerj9.2__version-negotiation")
SESSIONS = (QPIDD, *JMS)
NAMES = (*SESSIONS, *NEGOTIATIONS)


def captures() -> list[Path]:
    """All of them."""
    return [capture(name) for name in NAMES]


def capture(name: str) -> Path:
    (path,) = FOLDER.glob(f"{name}.pcap*")
    return path


def decoded(name: str) -> list[Decoded]:
    """What a capture decodes to."""
    return list(read_decoded(capture(name)))


class Piece:
    """Some packets of a capture, in place of a file."""

    source = "piece"

    def __init__(self, packets: Sequence[Packet]) -> None:
        self._packets = packets

    def packets(self, *listeners: object) -> Iterator[Packet]:
        return iter(self._packets)


def decoded_from(name: str, part: float) -> list[Decoded]:
    """What is decoded of a capture that begins so late."""
    packets = list(files_of(capture(name))[0].packets())
    reading = CaptureReading("piece")
    piece: Any = Piece(packets[int(len(packets) * part) :])
    return [*reading.decoded(piece), *reading.finish()]


class Direction(NamedTuple):
    """What one peer of one connection sent, as the packets had it."""

    stream: int
    port: int
    pieces: list[bytes]

    @property
    def data(self) -> bytes:
        return b"".join(self.pieces)


def directions(name: str, shuffle: Random | None = None) -> list[Direction]:
    """Both directions of each connection of a capture, that of the client first.

    With `shuffle`, packets overtake others, as far as they do behind a busy router: a connection's first ones do not.
    """
    dissector, reassembler = Dissector(), Reassembler()
    ports: dict[int, tuple[int, int]] = {}
    pieces: dict[tuple[int, int], list[bytes]] = defaultdict(list)
    events = []
    segments = [segment for packet in read_packets(capture(name)) if (segment := dissector.segment(packet)) is not None]
    if shuffle is not None:
        segments = _overtaking(segments, shuffle)
    for segment in segments:
        events += reassembler.feed(segment)
    for event in (*events, *reassembler.finish()):
        if isinstance(event, Opened):
            client, server = event.endpoints
            ports[event.stream] = (client.port, server.port)
        elif isinstance(event, Data):
            pieces[event.stream, event.direction].append(event.data)
    return [
        Direction(stream, ends[direction], pieces[stream, direction])
        for stream, ends in sorted(ports.items())
        for direction in (0, 1)
    ]


def _overtaking(segments: list[TCPSegment], random: Random) -> list[TCPSegment]:
    """The segments in another order, none of them far from its place."""
    seen: dict[bytes, int] = defaultdict(int)
    keyed = []
    for number, segment in enumerate(segments):
        seen[segment.flow] += 1
        keyed.append((number + (random.uniform(0, 3) if seen[segment.flow] > 3 else 0), number, segment))
    return [segment for _, _, segment in sorted(keyed, key=lambda each: each[:2])]


def speaks_0_10(direction: Direction) -> bool:
    return direction.data.startswith(HEADER)


def frames(direction: Direction) -> list[Frame]:
    """The frames behind the header."""
    reader = FrameReader()
    reader.skip(len(HEADER))
    reader.set_frame_max(0)
    found = reader.feed(direction.data[len(HEADER) :])
    assert reader.error is None
    assert not reader.held
    assert not reader.is_mid_assembly
    return found


def assemblies(direction: Direction) -> Iterator[Assembly]:
    readers: dict[int, AssemblyReader] = defaultdict(AssemblyReader)
    for frame in frames(direction):
        assembly = readers[frame.channel].add(frame)
        if assembly is not None:
            yield assembly


def expected(name: str, kind: str) -> list[str]:
    """The lines of what another program makes of a capture."""
    return gzip.decompress((FOLDER / f"{name}.{kind}.gz").read_bytes()).decode().splitlines()


def rows(name: str) -> list[dict[str, str]]:
    """What tshark makes of a capture, a row for each frame."""
    return list(csv.DictReader(expected(name, "tsv"), delimiter="\t"))

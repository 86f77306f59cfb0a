"""Makes the captures of `captures/` that networks, cards and snapshot lengths have been at, from those that are whole:
`python -m tests.capture.mutate_captures`. It makes the same files each time. Then run `python -m tests.capture.golden`.
"""

from __future__ import annotations

import gzip
import random
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from amqproxy.capture.files import read_packets
from amqproxy.capture.packets import ACK, RST, SYN, Dissector, TCPSegment
from tests.capture import building
from tests.capture.golden import FOLDER

Segments = list[TCPSegment]

LARGE = 60_000
"""Bytes above which a file is packed."""

UNCHANGED = (
    "consume-large.shuffled",
    "consume-large.retransmitted",
    "consume-large.fragmented",
    "login-refused.octets",
    "publish-get-ack.wrapped",
    "every-type.ipv6-in-vlans",
)
"""Those that must decode to the very frames of what they were made from."""


def segments_of(name: str) -> Segments:
    dissector = Dissector()
    found = (dissector.segment(packet) for packet in read_packets(FOLDER / f"{name}.pcapng"))
    return [segment for segment in found if segment is not None]


def tcp(segment: TCPSegment) -> bytes:
    source, target = struct.unpack(">HH", segment.flow[-4:])
    return building.tcp(
        segment.payload, source=source, target=target, seq=segment.seq, ack=segment.ack, flags=segment.flags
    )


def ends(segment: TCPSegment) -> tuple[str, str]:
    return ".".join(map(str, segment.flow[:4])), ".".join(map(str, segment.flow[4:8]))


def over_ethernet(segments: Segments) -> list[building.Timed]:
    packets = []
    for segment in segments:
        source, target = ends(segment)
        packets.append((segment.ts_ns, building.ethernet(building.ipv4(tcp(segment), source=source, target=target))))
    return packets


def stamped(segments: Segments) -> Segments:
    """In the order given, with the times they had before, ascending."""
    times = sorted(segment.ts_ns for segment in segments)
    return [change(segment, ts_ns=ts_ns) for segment, ts_ns in zip(segments, times, strict=True)]


def change(segment: TCPSegment, **values: Any) -> TCPSegment:
    return TCPSegment(*[values.get(name, getattr(segment, name)) for name in TCPSegment.__match_args__])


def halves(segment: TCPSegment, at: int) -> Segments:
    first = change(segment, payload=segment.payload[:at])
    return [first, change(segment, payload=segment.payload[at:], seq=(segment.seq + at) & 0xFFFFFFFF)]


def cut(segments: Segments, size: int) -> Segments:
    """Segments of at most `size` bytes of payload."""
    pieces: Segments = []
    for segment in segments:
        left = segment
        while len(left.payload) > size:
            piece, left = halves(left, size)
            pieces.append(piece)
        pieces.append(left)
    return pieces


# -------------------------------------------------------------------------------------------------- the same frames


def shuffled() -> list[building.Timed]:
    """Segments out of order by as much as eight places, handshake and all."""
    chance = random.Random(1)
    segments = cut(segments_of("consume-large"), 700)
    keyed = [(index + chance.uniform(0, 8) * (index > 2), index) for index in range(len(segments))]
    return over_ethernet(stamped([segments[index] for _, index in sorted(keyed)]))


def retransmitted() -> list[building.Timed]:
    """Segments that come again, whole, in part or together with what follows; keep-alives between them."""
    chance = random.Random(2)
    segments: Segments = []
    for segment in cut(segments_of("consume-large"), 900):
        segments.append(segment)
        if segment.payload and chance.random() < 0.5:
            at = chance.randrange(len(segment.payload))
            segments.append(chance.choice([segment, *halves(segment, at)]))
        if not segment.payload and not segment.flags & (SYN | RST | 1):
            segments.append(change(segment, seq=(segment.seq - 1) & 0xFFFFFFFF, payload=b"\0"))
    spaced = [change(segment, ts_ns=segment.ts_ns + index) for index, segment in enumerate(segments)]
    return over_ethernet(spaced)


def fragmented() -> list[building.Timed]:
    """IP fragments, the last of each packet first."""
    packets = []
    for number, segment in enumerate(segments_of("consume-large")):
        source, target = ends(segment)
        datagram = tcp(segment)
        pieces = [datagram[at : at + 1480] for at in range(0, len(datagram), 1480)]
        for index in reversed(range(len(pieces))):
            place = index * 1480 // 8 | (0x2000 if index + 1 < len(pieces) else 0)
            ip = building.ipv4(pieces[index], source=source, target=target, number=number, place=place)
            packets.append((segment.ts_ns, building.ethernet(ip)))
    return packets


def single_bytes() -> list[building.Timed]:
    """Each byte in a separate segment."""
    return over_ethernet(cut(segments_of("login-refused"), 1))


def wrapped() -> list[building.Timed]:
    """Sequence numbers that pass 2^32 in the middle of the handshake of AMQP."""
    segments = segments_of("publish-get-ack")
    first = {segment.flow: segment.seq for segment in reversed(segments)}
    peer = {segments[0].flow: segments[1].flow, segments[1].flow: segments[0].flow}
    moved = []
    for segment in segments:
        seq = segment.seq - first[segment.flow] + 2**32 - 200
        ack = segment.ack - first[peer[segment.flow]] + 2**32 - 200 if segment.flags & ACK else 0
        moved.append(change(segment, seq=seq & 0xFFFFFFFF, ack=ack & 0xFFFFFFFF))
    return over_ethernet(moved)


def ipv6_in_vlans() -> list[building.Timed]:
    """IPv6 with hop-by-hop and destination options, in two VLANs."""
    packets = []
    for segment in segments_of("every-type"):
        is_server = segment.flow == segments_of("every-type")[1].flow
        source, target = (building.SERVER6, building.CLIENT6) if is_server else (building.CLIENT6, building.SERVER6)
        options = b"\x3c\0\1\4\0\0\0\0" + b"\x06\0\1\4\0\0\0\0"
        ip = building.ipv6(options + tcp(segment), source=source, target=target, protocol=0)
        packets.append((segment.ts_ns, building.ethernet(ip, 0x86DD, [(0x88A8, 100), (0x8100, 200)])))
    return packets


# ------------------------------------------------------------------------------------------------------ with losses


def dropped() -> list[building.Timed]:
    """A capture that missed packets which the peers did not."""
    chance = random.Random(3)
    segments = cut(segments_of("consume-large"), 1448)
    return over_ethernet([segment for segment in segments if segment.flags & SYN or chance.random() > 0.15])


def snapped() -> list[building.Timed]:
    """Packets cut to 256 bytes, which leaves the bodies out."""
    return over_ethernet(segments_of("consume-large"))


def joined_midway() -> list[building.Timed]:
    """The capture begins in the middle of a body, on a port that is not AMQP's."""
    segments = cut(segments_of("consume-large"), 1448)
    pieces = [index for index, segment in enumerate(segments) if len(segment.payload) == 1448]
    return over_ethernet(segments[pieces[1] :])


def ports_reused() -> list[building.Timed]:
    """Two connections, one after the other, between the same ports."""
    first, second = segments_of("confirms"), segments_of("channel-error")
    ports = {second[0].flow: first[0].flow, second[1].flow: first[1].flow}
    return over_ethernet([*first, *(change(segment, flow=ports[segment.flow]) for segment in second)])


def broken() -> list[building.Timed]:
    """A client that writes a frame with a wrong end, and one with rubbish in a table; and goes on."""
    segments = segments_of("kombu-table")
    changed = []
    for segment in segments:
        payload = segment.payload
        if payload.startswith(b"\1\0\1\0\0\0\x1d\0\x32\0\x14"):  # queue.bind
            payload = payload[:-1] + b"\xcd"
        at = payload.find(b"\x07decimalD")
        if at >= 0 and struct.unpack(">H", segment.flow[-4:-2])[0] > struct.unpack(">H", segment.flow[-2:])[0]:
            payload = payload[: at + 8] + b"?" + payload[at + 9 :]
        changed.append(change(segment, payload=payload))
    return over_ethernet(changed)


MUTATIONS: dict[str, Callable[[], list[building.Timed]]] = {
    "consume-large.shuffled": shuffled,
    "consume-large.retransmitted": retransmitted,
    "consume-large.fragmented": fragmented,
    "consume-large.dropped": dropped,
    "consume-large.snapped": snapped,
    "consume-large.joined-midway": joined_midway,
    "confirms.ports-reused": ports_reused,
    "login-refused.octets": single_bytes,
    "publish-get-ack.wrapped": wrapped,
    "every-type.ipv6-in-vlans": ipv6_in_vlans,
    "kombu-table.broken": broken,
}


def made(name: str) -> tuple[Path, bytes]:
    """A capture, and where it belongs."""
    path = FOLDER / f"{name}.pcapng"
    data = building.pcapng(MUTATIONS[name](), snap_length=256 if name.endswith(".snapped") else 0)
    if len(data) > LARGE:
        return path.with_name(path.name + ".gz"), gzip.compress(data, mtime=0)
    return path, data


if __name__ == "__main__":
    for each in MUTATIONS:
        place, content = made(each)
        place.write_bytes(content)
        sys.stdout.write(f"{place.name}\n")

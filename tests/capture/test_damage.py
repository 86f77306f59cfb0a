"""Damage to captures: the same frames come out, or exactly what is lost is said.

Every capture of the corpus, and of those that are lent, is cut up anew, shuffled, repeated, robbed of packets, ended
early and begun late. What comes out is laid beside what the whole capture holds, byte by byte.
"""

import io
import random
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from amqproxy.amqp010.frame import OVERHEAD as AMQP010_OVERHEAD
from amqproxy.amqp091.frame import OVERHEAD
from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decode import Decoder, read_decoded
from amqproxy.capture.decoded import Decoded, DecodedFrames, DecodedProtocolHeader, SkippedBytes
from amqproxy.capture.files import read_packets
from amqproxy.capture.packets import FIN, RST, SYN, Dissector, TCPSegment
from amqproxy.capture.reassembly import Reassembler
from amqproxy.capture.stream_events import Event
from amqproxy.capture.warnings import CaptureError, CaptureWarning, WarningKind
from tests.amqp010 import recorded
from tests.capture import golden, shared_captures
from tests.capture.mutate_captures import Segments, change, cut, halves, stamped

CAPTURES = [*golden.captures(), *recorded.captures(), *shared_captures.files(recorded.NAMES)]
LOSSLESS = [path for path in CAPTURES if path.parent != golden.FOLDER or path.name.count(".") == 1]
"""Captures in which nothing is missing: what is lost of them, the damage took."""
LARGE = 120_000
"""Bytes of payload that are not cut into single ones."""

Direction = tuple[str, str]
"""A connection and who sends."""


class Piece(NamedTuple):
    """Bytes of a direction, from `at` on: those of a frame or header, or those that were skipped, for a `reason`.

    Of a body, so many bytes may be `lost`.
    """

    at: int
    size: int
    raw: bytes
    lost: int = 0
    reason: str = ""


def pieces_of(passed: Iterable[Decoded]) -> dict[Direction, list[Piece]]:
    """What each direction comes to, in order; what another connection on the same ports sent comes behind it."""
    found: dict[Direction, list[Piece]] = {}
    for each in passed:
        if isinstance(each, DecodedFrames | DecodedProtocolHeader | SkippedBytes):
            pieces = found.setdefault((f"{each.stream} {each.connection}", each.sender), [])
            pieces += _pieces(each, pieces)
    return found


def _pieces(each: DecodedFrames | DecodedProtocolHeader | SkippedBytes, before: list[Piece]) -> Iterator[Piece]:
    if isinstance(each, Amqp010DecodedFrames):
        for one in each.frames:
            yield Piece(one.offset, one.size + AMQP010_OVERHEAD, one.raw, one.lost)
    elif isinstance(each, Amqp091DecodedFrames):
        for frame in each.frames:
            yield Piece(frame.offset, frame.size + OVERHEAD, frame.raw, frame.lost)
    elif isinstance(each, SkippedBytes):
        yield Piece(each.offset, each.lost, b"", each.lost, each.reason)
    else:
        at = before[-1].at + before[-1].size if before else 0
        yield Piece(at, len(each.data), each.data)


def decoded(segments: Iterable[TCPSegment]) -> Iterator[Decoded]:
    reassembler, decoder = Reassembler(), Decoder()

    def passed(events: list[Event]) -> Iterator[Decoded]:
        for event in events:
            yield from decoder.feed(event)
            if decoder.is_hopeless(event.stream):
                reassembler.ignore(event.stream)

    for segment in segments:
        yield from passed(reassembler.feed(segment))
    yield from passed(reassembler.finish())


@cache
def segments_of(path: Path) -> tuple[TCPSegment, ...]:
    dissector = Dissector()
    return tuple(segment for packet in read_packets(path) if (segment := dissector.segment(packet)) is not None)


@cache
def whole(path: Path) -> dict[Direction, list[Piece]]:
    return pieces_of(decoded(segments_of(path)))


def chance_for(path: Path) -> random.Random:
    return random.Random(path.name)


# ------------------------------------------------------------------------------------------------------ the same frames


def into_single_bytes(path: Path) -> Segments:
    segments = list(segments_of(path))
    return cut(segments, 1 if sum(len(segment.payload) for segment in segments) < LARGE else 5)


def into_five_bytes(path: Path) -> Segments:
    return cut(list(segments_of(path)), 5)


def shuffled(path: Path) -> Segments:
    """By as much as three places, as an acknowledgement may overtake; connections begin and end as they did."""
    chance = chance_for(path)
    segments = cut(list(segments_of(path)), 700)
    begun: set[bytes] = set()
    keyed = []
    for index, segment in enumerate(segments):
        is_first = segment.flow not in begun
        begun.add(segment.flow)
        is_fixed = any(each.flags & (SYN | FIN | RST) for each in segments[max(0, index - 7) : index + 7])
        keyed.append((index + (0 if is_first or is_fixed else chance.uniform(0, 3)), index))
    return stamped([segments[index] for _, index in sorted(keyed)])


def repeated(path: Path) -> Segments:
    """Whole, in part, and together with what follows."""
    chance = chance_for(path)
    segments: Segments = []
    for segment in cut(list(segments_of(path)), 900):
        segments.append(segment)
        if segment.payload and not segment.flags & SYN and chance.random() < 0.5:
            segments.append(chance.choice([segment, *halves(segment, chance.randrange(len(segment.payload)))]))
        if len(segments) > 9 and chance.random() < 0.1 and not segments[-9].flags & (SYN | FIN | RST):
            segments.append(segments[-9])
    return segments


@pytest.mark.parametrize("damage", [into_single_bytes, into_five_bytes, shuffled, repeated])
@pytest.mark.parametrize("path", LOSSLESS, ids=lambda path: path.stem)
def test_how_the_packets_came_does_not_matter(path: Path, damage: object) -> None:
    assert pieces_of(decoded(damage(path))) == whole(path)  # type: ignore[operator]


# ---------------------------------------------------------------------------------------------------------- with losses


def laid_beside(found: list[Piece], expected: list[Piece], start: int, end: int | None) -> int:
    """Compare what was found of a direction, from its byte `start` on, with all of it: how many frames are lost that
    nothing was missing of.

    What was found lies without a hole or an overlap. Each frame is one of those expected, with the same bytes, and of
    what was lost of it the place is zeros. Each that was expected was found, or lies within what was said to be lost.
    """
    by_place = {piece.at: piece for piece in expected if not piece.reason}
    at = 0
    lost: list[tuple[int, int]] = []
    seen: set[int] = set()
    for piece in found:
        assert piece.at == at, "there is a hole or an overlap"
        at += piece.size
        place = piece.at + start
        if piece.reason:
            lost.append((place, place + piece.size))
            continue
        seen.add(place)
        true = by_place.get(place)
        assert true is not None, f"there is no frame at {place}"
        known = len(piece.raw) - piece.lost - (1 if piece.lost else 0)
        assert piece.raw[:known] == true.raw[:known]
        assert len(piece.raw) == len(true.raw)
    unseen = [piece for piece in expected if not piece.reason and piece.at not in seen]
    for piece in unseen:
        is_before, is_behind = piece.at < start, end is not None and piece.at + piece.size > end
        is_said = any(begin <= piece.at and piece.at + piece.size <= stop for begin, stop in lost)
        assert is_before or is_behind or is_said or piece.at >= at + start, f"nothing is said of what is at {piece.at}"
    return len(unseen)


def assert_all_is_said(path: Path, segments: Segments) -> None:
    """Of connections that can still be told apart."""
    expected = whole(path)
    for place, found in pieces_of(decoded(segments)).items():
        connection = place[0].partition(" ")[2]
        candidates = [
            pieces for key, pieces in expected.items() if (key[0].partition(" ")[2], key[1]) == (connection, place[1])
        ]
        if len(candidates) == 1 and not any("is not decoded" in piece.reason for piece in candidates[0]):
            laid_beside(found, candidates[0], 0, None)


@pytest.mark.parametrize("path", LOSSLESS, ids=lambda path: path.stem)
def test_a_segment_that_is_missing(path: Path) -> None:
    """Each in its turn, or some of many; in captures of large segments also parts of them."""
    for size in (100_000, 300):
        segments = cut(list(segments_of(path)), size)
        places = [index for index, segment in enumerate(segments) if segment.payload and not segment.flags & SYN]
        chosen = places if len(places) <= 40 else chance_for(path).sample(places, 40)
        for index in chosen:
            if _is_first(segments, index):
                continue  # as a capture that begins late
            assert_all_is_said(path, segments[:index] + segments[index + 1 :])


def _is_first(segments: Segments, index: int) -> bool:
    """Whether nothing shows where its direction began."""
    return not any(segment.flow == segments[index].flow for segment in segments[:index])


@pytest.mark.parametrize("path", LOSSLESS, ids=lambda path: path.stem)
def test_packets_that_were_cut(path: Path) -> None:
    """As by `tcpdump -s`: what is behind in each packet is missing."""
    for most in (60, 200):
        segments = [
            change(segment, payload=segment.payload[:most], missing=max(0, len(segment.payload) - most))
            for segment in segments_of(path)
        ]
        assert_all_is_said(path, segments)


@pytest.mark.parametrize("path", LOSSLESS, ids=lambda path: path.stem)
def test_a_capture_that_begins_late(path: Path) -> None:
    """As a file of a ring does. Offsets count from its first byte on."""
    segments = cut(list(segments_of(path)), 1448)
    expected = whole(path)
    for begin in sorted(chance_for(path).sample(range(1, len(segments)), min(25, len(segments) - 1))):
        rest = segments[begin:]
        for place, found in pieces_of(decoded(rest)).items():
            for key, pieces in expected.items():
                if key[0].partition(" ")[2] == place[0].partition(" ")[2] and key[1] == place[1]:
                    client = bytes(map(int, place[0].split()[1].partition(":")[0].split(".")))
                    start = _start(segments, rest, client, place)
                    if start is not None and not any("is not decoded" in piece.reason for piece in (*pieces, *found)):
                        laid_beside(found, pieces, start, None)


def _start(segments: Segments, rest: Segments, client: bytes, place: Direction) -> int | None:
    """At which byte of its direction `rest` begins; None where that is not plain."""
    ends = place[0].partition(" ")[2].split("-")
    source, target = ends if place[1] == "client" else ends[::-1]
    ports = int(source.rpartition(":")[2]).to_bytes(2) + int(target.rpartition(":")[2]).to_bytes(2)
    mine = [segment for segment in segments if segment.flow.endswith(ports)]
    late = [segment for segment in rest if segment.flow.endswith(ports)]
    if sum(bool(segment.flags & SYN) for segment in mine) > 1 or len({segment.flow for segment in mine}) != 1:
        return None
    first = mine[0]
    begin = (first.seq + bool(first.flags & SYN)) & 0xFFFFFFFF
    answers = [segment for segment in rest if segment.flow.endswith(ports[2:] + ports[:2])]
    if not late or late[0].flags & SYN:
        return 0
    # The direction begins with its first segment, or with what the other side acknowledged before it.
    if answers and rest.index(answers[0]) < rest.index(late[0]):
        return (answers[0].ack - begin) & 0xFFFFFFFF
    return (late[0].seq - begin) & 0xFFFFFFFF


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_a_file_that_is_cut_in_a_record(path: Path) -> None:
    """What came before is there, as it is in the whole, and then a warning."""
    data = path.read_bytes()
    expected = pieces_of(read_decoded(path))
    for at in sorted(chance_for(path).sample(range(300, len(data)), 8)):
        notices: list[CaptureWarning] = []
        try:
            found = pieces_of(read_decoded(io.BytesIO(data[:at]), notices.append))
        except CaptureError:
            pytest.fail(f"cut at {at}, it is an error")
        kinds = {notice.kind for notice in notices} - {WarningKind.IGNORED, WarningKind.FRAGMENTS}
        assert kinds in ({WarningKind.CUT_SHORT}, set()), at
        for place, pieces in found.items():
            assert {piece for piece in pieces if not piece.lost} <= set(expected.get(place, [])), at

"""Two captures, command by command."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.amqp010.controls import SessionDetach
from amqproxy.amqp010.frame import Frame as Amqp010Frame
from amqproxy.amqp091.frame import BODY, HEADER, METHOD, Frame, encode_frame, encode_method
from amqproxy.amqp091.methods import BasicPublish, ChannelClose
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.decoded import Decoded, DecodedFrames, StreamEnded
from amqproxy.comparison.command_store import CommandStore
from amqproxy.comparison.comparison import (
    ComparisonReport,
    ComparisonSummary,
    ConnectionsCompared,
    LatenciesCompared,
    compared,
)
from amqproxy.comparison.difference import Change, Difference, DifferenceKind
from amqproxy.rules.matching.filters import compiled
from amqproxy.rules.message_filter import message_filters_of
from amqproxy.taps.note import Note
from amqproxy.taps.trace.events import Method
from tests.amqp010 import recorded
from tests.capture import golden
from tests.example_count import example_count

CAPTURES = [*golden.captures(), *recorded.captures()]
NAMES = [path.name.partition(".pcap")[0] for path in CAPTURES]
SAME = [
    ("consume-large", "consume-large.shuffled"),
    ("consume-large", "consume-large.retransmitted"),
    ("consume-large", "consume-large.fragmented"),
    ("every-type.ipv6-in-vlans", "every-type.ipv6-in-vlans"),
    ("login-refused", "login-refused.octets"),
    ("publish-get-ack", "publish-get-ack.wrapped"),
]


def capture(name: str) -> Path:
    return CAPTURES[NAMES.index(name)]


def read(path: Path) -> Iterator[Decoded]:
    return read_decoded(path)


def reports(a: Iterable[Decoded], b: Iterable[Decoded], **options: Any) -> list[ComparisonReport]:
    with closing(CommandStore(**options)) as one, closing(CommandStore(**options)) as other:
        one.load(a)
        other.load(b)
        return list(compared(one, other))


def differences(a: Iterable[Decoded], b: Iterable[Decoded], **options: Any) -> list[Difference]:
    return [each for each in reports(a, b, **options) if isinstance(each, Difference)]


def of_files(a: str, b: str) -> list[Difference]:
    return differences(read(capture(a)), read(capture(b)))


@pytest.mark.parametrize("name", NAMES)
def test_nothing_differs_from_itself(name: str) -> None:
    found = reports(read(capture(name)), read(capture(name)))
    summary = found[-1]
    assert isinstance(summary, ComparisonSummary)
    assert summary.is_same
    assert not [each for each in found if isinstance(each, Difference)]
    assert all(each.a == each.b for each in found if isinstance(each, LatenciesCompared | ConnectionsCompared))


@pytest.mark.parametrize(("a", "b"), SAME)
def test_the_same_in_other_packets_is_the_same(a: str, b: str) -> None:
    assert of_files(a, b) == []


@pytest.mark.parametrize("number", range(len(NAMES)))
def test_the_other_way_round_it_is_mirrored(number: int) -> None:
    a, b = NAMES[number], NAMES[(number * 5 + 3) % len(NAMES)]

    def counted(found: list[Difference], *, is_mirrored: bool) -> Counter[Any]:
        return Counter(
            (
                each.kind.mirrored if is_mirrored else each.kind,
                *((each.b, each.a) if is_mirrored else (each.a, each.b)),
                frozenset(repr(change.mirrored if is_mirrored else change) for change in each.changes),
            )
            for each in found
        )

    assert counted(of_files(a, b), is_mirrored=True) == counted(of_files(b, a), is_mirrored=False)


# --- mutations


Publishes = dict[int, tuple[int, list[int]]]


def publishes(decoded: list[Decoded]) -> list[list[tuple[int, int]]]:
    """The frames of each publish: which of what was decoded they are in, and where."""
    found: list[list[tuple[int, int]]] = []
    open_now: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for number, each in enumerate(decoded):
        if not isinstance(each, Amqp091DecodedFrames) or each.sender != "client":
            continue
        for place, frame in enumerate(each.frames):
            key = (each.stream, frame.channel)
            if frame.kind == METHOD:
                open_now.pop(key, None)
                if frame.index == BasicPublish.index:
                    found.append([])
                    open_now[key] = found[-1]
            if key in open_now:
                open_now[key].append((number, place))
    return found


def mutated(decoded: list[Decoded], new: dict[tuple[int, int], list[bytes]]) -> list[Decoded]:
    """With other frames in these places."""
    result: list[Decoded] = []
    for number, each in enumerate(decoded):
        if isinstance(each, Amqp091DecodedFrames):
            frames = [
                changed
                for place, frame in enumerate(each.frames)
                for changed in map(Frame, new.get((number, place), [frame.raw]))
            ]
            each = msgspec.structs.replace(each, frames=frames)
        result.append(each)
    return result


LARGE = list(read(capture("consume-large")))
PUBLISHES = publishes(LARGE)


def frame_of(place: tuple[int, int]) -> Frame:
    each = LARGE[place[0]]
    assert isinstance(each, Amqp091DecodedFrames)
    return each.frames[place[1]]


@settings(max_examples=example_count(30), deadline=None)
@given(st.data())
def test_a_mutation_is_named_exactly(data: st.DataObject) -> None:
    places = data.draw(st.sampled_from(PUBLISHES))
    frames = [frame_of(place) for place in places]
    change = data.draw(st.sampled_from(["field", "property", "body", "remove", "add"]))
    new = {place: [frame.raw] for place, frame in zip(places, frames, strict=True)}
    if change == "field":
        method = msgspec.structs.replace(frames[0].method, mandatory=True)
        new[places[0]] = [encode_method(frames[0].channel, method)]
        expected: Any = (DifferenceKind.CHANGED, [("mandatory", False, True)])
    elif change == "property":
        header = frames[1].header
        properties = msgspec.structs.replace(header.properties, app_id="mutant")
        raw = ContentHeader(header.body_size, properties).encode()
        new[places[1]] = [encode_frame(HEADER, frames[1].channel, raw)]
        path, before, after = "properties.app_id", msgspec.UNSET, "mutant"
        if not header.properties.present():
            path, after = "properties", {"app_id": "mutant"}  # type: ignore[assignment]
        expected = (DifferenceKind.CHANGED, [(path, before, after)])
    elif change == "body":
        if len(frames) < 3:
            return
        at = data.draw(st.integers(0, sum(frame.size for frame in frames[2:]) - 1))
        start = 0
        for place, frame in zip(places[2:], frames[2:], strict=True):
            if start <= at < start + frame.size:
                payload = bytearray(frame.payload)
                payload[at - start] ^= 1
                new[place] = [encode_frame(BODY, frame.channel, bytes(payload))]
            start += frame.size
        found = differences(LARGE, mutated(LARGE, new))
        assert [each.kind for each in found] == [DifferenceKind.CHANGED]
        assert [(each.field, each.at) for each in found[0].changes] == [("body", at)]
        return
    elif change == "remove":
        new = {place: [] for place in places}
        expected = (DifferenceKind.MISSING, [])
    else:
        new[places[-1]] = [frames[-1].raw, *(frame.raw for frame in frames)]
        expected = (DifferenceKind.EXTRA, [])
    found = differences(LARGE, mutated(LARGE, new))
    assert [(each.kind, [(c.field, c.before, c.after) for c in each.changes]) for each in found] == [expected]
    assert found[0].type == "publish"
    assert (found[0].a or found[0].b).channel == frames[0].channel  # type: ignore[union-attr]


def test_a_publish_that_moved() -> None:
    first, second = PUBLISHES[0], PUBLISHES[1]
    moved = {place: [] for place in first}
    moved |= {second[-1]: [frame_of(place).raw for place in (second[-1], *first)]}
    assert [each.kind for each in differences(LARGE, mutated(LARGE, moved))] == [DifferenceKind.MOVED]


def test_what_became_of_a_publish_is_compared() -> None:
    confirms = list(read(capture("confirms")))
    new: dict[tuple[int, int], list[bytes]] = {}
    for number, each in enumerate(confirms):
        if isinstance(each, Amqp091DecodedFrames) and each.sender == "server":
            for place, frame in enumerate(each.frames):
                if frame.kind == METHOD and frame.method.name == "basic.nack":
                    new[number, place] = [frame.raw.replace(b"\0\x3c\0\x78", b"\0\x3c\0\x50")[:-2] + b"\0\xce"]
    assert len(new) == 1
    (found,) = differences(confirms, mutated(confirms, new))
    assert found.changes == (Change(field="outcome", before="nacked", after="confirmed"),)


def test_fields_that_are_ignored() -> None:
    places = PUBLISHES[0]
    frame = frame_of(places[0])
    new = {places[0]: [encode_method(frame.channel, msgspec.structs.replace(frame.method, mandatory=True))]}
    new[places[2]] = [encode_frame(BODY, frame.channel, bytes(frame_of(places[2]).size))]
    other = mutated(LARGE, new)
    assert len(differences(LARGE, other)[0].changes) == 2
    assert len(differences(LARGE, other, ignored=["mandatory", "no.such.field"])[0].changes) == 1
    assert differences(LARGE, other, ignored=["mandatory", "body"]) == []


def test_connections_that_correspond_by_nothing_are_missing_and_extra() -> None:
    found = of_files("confirms", "confirms.ports-reused")
    assert [(each.kind, each.type) for each in found] == [(DifferenceKind.EXTRA, "connection")]
    assert of_files("confirms.ports-reused", "confirms")[0].kind is DifferenceKind.MISSING


def test_bodies_that_were_not_captured_whole() -> None:
    """As far as both were captured they are the same; how much that was is told."""
    found = [each for each in of_files("consume-large", "consume-large.snapped") if each.type == "publish"]
    assert len(found) == 3
    assert {change.field for each in found for change in each.changes} == {"captured"}
    assert of_files("consume-large.snapped", "consume-large.snapped") == []


# --- of 0-10


def replaced(decoded: list[Decoded], old: bytes, new: bytes) -> list[Decoded]:
    """With other frames in place of the one of 0-10 that has `old` in it."""
    result: list[Decoded] = []
    count = 0
    for each in decoded:
        if isinstance(each, Amqp010DecodedFrames):
            frames = [Amqp010Frame(frame.raw.replace(old, new)) if old in frame.raw else frame for frame in each.frames]
            count += sum(old in frame.raw for frame in each.frames)
            each = msgspec.structs.replace(each, frames=frames)
        result.append(each)
    assert count == 1
    return result


TYPES = recorded.decoded(recorded.QPIDD)
ACCEPT_4 = b"\4\2\1\1\1\0\0\x08" + bytes(3) + b"\4" + bytes(3) + b"\4"


def test_what_became_of_a_transfer_is_compared() -> None:
    (found,) = differences(TYPES, replaced(TYPES, ACCEPT_4, b"\4\4" + ACCEPT_4[2:]))
    assert (found.kind, found.type) == (DifferenceKind.CHANGED, "deliver")
    assert found.changes == (
        Change(field="outcome", before="acked", after="recovered"),
        Change(field="requeue", before=msgspec.UNSET, after=True),
    )


def test_a_property_of_a_transfer_that_changed() -> None:
    (found,) = differences(TYPES, replaced(TYPES, b"\1\x86\xa0\0\0", b"\1\x86\xa1\0\0"))
    assert (found.kind, found.type) == (DifferenceKind.CHANGED, "publish")
    assert found.changes == (Change(field="properties.ttl", before=100_000, after=100_001),)


def without_command(decoded: list[Decoded], wanted: int) -> list[Decoded]:
    """Without the command that a client has sent with this id on channel 1, whose ids go on."""
    result: list[Decoded] = []
    for each in decoded:
        if isinstance(each, Amqp010DecodedFrames) and each.sender == "client":
            kept = [
                (frame, number)
                for frame, number in zip(each.frames, each.command_ids, strict=True)
                if frame.channel != 1 or number != wanted
            ]
            if not kept:
                continue
            frames, numbers = zip(*kept, strict=True)
            each = msgspec.structs.replace(each, frames=frames, command_ids=numbers)
        result.append(each)
    return result


def test_a_command_of_a_session_that_is_missing() -> None:
    missing = without_command(TYPES, 5)  # exchange.bound, whose result names another command then
    found = differences(TYPES, missing)
    assert found[0].kind is DifferenceKind.MISSING
    assert (found[0].method, found[0].a and found[0].a.channel) == ("exchange.bound", 1)


def test_a_filter_chooses_commands_of_0_10() -> None:
    options = {"selector_of": message_filters_of(compiled("method == 'message.transfer' && sender == 'client'"))}
    with closing(CommandStore(**options)) as store:
        store.load(TYPES)
        (connection,) = store.connections
        types = [
            store.command(item.ref).type
            for channel in store.channels(connection.stream)
            for track in store.tracks(channel.ref).values()
            for item in store.items(track)
        ]
    assert set(types) == {"publish", "channel"}, "and what ended with an error"
    assert types.count("publish") > 5


def test_names_that_clients_of_0_10_make_up_are_not_compared() -> None:
    decoded = recorded.decoded("brokerj9.2__jms-010-request-reply")
    names = {name for each in decoded for name in _TEMPORARY.findall(_raw(each))}
    assert len(names) > 1
    other: list[Decoded] = []
    for each in decoded:
        if isinstance(each, Amqp010DecodedFrames):
            frames = [Amqp010Frame(_TEMPORARY.sub(_another, frame.raw)) for frame in each.frames]
            each = msgspec.structs.replace(each, frames=frames)
        other.append(each)
    assert differences(decoded, other) == []


_TEMPORARY = re.compile(rb"(?<=TempQueue)[0-9a-f-]{36}|(?<=tmp_)[0-9a-f_-]{36}")
_MIRRORED = bytes.maketrans(b"0123456789abcdef", b"fedcba9876543210")


def _another(match: re.Match[bytes]) -> bytes:
    return match[0].translate(_MIRRORED)


def _raw(decoded: Decoded) -> bytes:
    return b"".join(frame.raw for frame in decoded.frames) if isinstance(decoded, Amqp010DecodedFrames) else b""


def by_proxy(decoded: list[Decoded], method: type[Method]) -> list[Decoded]:
    """With this method of the server marked as the proxy's own, as its recordings have it."""
    result: list[Decoded] = []
    for each in decoded:
        has_frames = isinstance(each, DecodedFrames) and each.sender == "server"
        if has_frames and any(frame.index == method.index for frame in each.frames):
            each = msgspec.structs.replace(each, note=Note(verdict="refused", leg="client"))
        result.append(each)
    return result


@pytest.mark.parametrize(("name", "method"), [("channel-error", ChannelClose), (recorded.QPIDD, SessionDetach)])
def test_a_close_by_the_proxy_is_not_one_by_the_server(name: str, method: type[Method]) -> None:
    decoded = list(read(capture(name)))
    (found, *_) = differences(decoded, by_proxy(decoded, method))
    assert Change(field="by", before="server", after="proxy") in found.changes


def test_a_reset_in_the_place_of_a_close_is_a_difference() -> None:
    found = list(read(capture("server-reset")))
    *others, end = found
    assert isinstance(end, StreamEnded)
    closed = [*others, msgspec.structs.replace(end, reason="client closed")]
    assert differences(found, found) == []
    (difference,) = differences(found, closed)
    (change,) = difference.changes
    assert (change.field, change.before, change.after) == ("reason", "server reset the connection", "client closed")

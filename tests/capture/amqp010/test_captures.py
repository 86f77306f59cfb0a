"""Recorded connections of 0-10, decoded from their captures: each frame that was sent, with its command's id."""

import json
from collections.abc import Iterable

import pytest

from amqproxy.amqp091.tally import Tally
from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.conversation import Conversation
from amqproxy.capture.decoded import Decoded, DecodedProtocolHeader, SkippedBytes, records_of
from amqproxy.capture.endpoints import Endpoint
from amqproxy.capture.json_lines import JSONLines
from amqproxy.capture.stream_events import Opened, StreamEnd
from amqproxy.peer import CLIENT, SERVER
from tests.amqp010 import recorded
from tests.capture.building import address


@pytest.mark.parametrize("name", recorded.SESSIONS)
def test_every_frame_is_there(name: str) -> None:
    found: dict[tuple[int, str], list[bytes]] = {}
    for each in recorded.decoded(name):
        if isinstance(each, Amqp010DecodedFrames):
            found.setdefault((each.stream, each.sender), []).extend(frame.raw for frame in each.frames)
        assert not isinstance(each, SkippedBytes)
    sent = {
        (direction.stream, CLIENT if number % 2 == 0 else SERVER): [frame.raw for frame in recorded.frames(direction)]
        for number, direction in enumerate(recorded.directions(name))
    }
    assert {place: frames for place, frames in sent.items() if frames} == found


def test_commands_are_numbered_as_their_peers_number_them() -> None:
    numbers: dict[tuple[str, int], list[int | None]] = {}
    completed: dict[tuple[str, int], int] = {}
    for each in recorded.decoded(recorded.QPIDD):
        for record in records_of(each):
            place = (record.sender, record.channel or 0)
            if record.type == "command":
                numbers.setdefault(place, []).append(record.command_id)
            elif record.method == "session.completed" and record.arguments:
                for _, last in record.arguments["commands"]:
                    partner = (SERVER if record.sender == CLIENT else CLIENT, record.channel or 0)
                    completed[partner] = max(completed.get(partner, 0), last)
    assert all(found == list(range(len(found))) for found in numbers.values())
    assert len(completed) == 3
    for place, last in completed.items():
        assert last in (len(numbers[place]) - 1, len(numbers[place]) - 2), "all, but for one that failed"


def test_other_headers_are_answered_with_the_servers_own() -> None:
    headers = [each for each in recorded.decoded(recorded.NEGOTIATIONS[0]) if isinstance(each, DecodedProtocolHeader)]
    assert {each.protocol for each in headers if each.sender == SERVER} == {"0-10"}
    assert len({each.protocol for each in headers if each.sender == CLIENT}) > 3


def test_lines_of_json_are_those_of_records() -> None:
    passed = recorded.decoded(recorded.QPIDD)
    lines = JSONLines(body=10)
    for each in passed:
        lines.add(each)
    expected = [record.to_json() for each in passed for record in records_of(each, body=10)]
    assert lines.take().splitlines() == expected
    assert json.loads(expected[20])["protocol"] == "0-10"


# --- joined in their middle


def raws(passed: Iterable[Decoded]) -> list[tuple[str, str, bytes]]:
    return [
        (each.connection, each.sender, frame.raw)
        for each in passed
        if isinstance(each, Amqp010DecodedFrames)
        for frame in each.frames
    ]


@pytest.mark.parametrize("part", [0.15, 0.4, 0.65, 0.9])
@pytest.mark.parametrize("name", recorded.SESSIONS)
def test_without_a_beginning_frames_are_still_those_of_0_10(name: str, part: float) -> None:
    whole, joined = raws(recorded.decoded(name)), raws(recorded.decoded_from(name, part))
    assert len(joined) > len(whole) * (1 - part) / 2
    for connection, sender in {each[:2] for each in joined}:
        found = [raw for *place, raw in joined if place == [connection, sender]]
        expected = [raw for *place, raw in whole if place == [connection, sender]]
        assert found == expected[-len(found) :]


@pytest.mark.parametrize("port", [5672, 40_001])
@pytest.mark.parametrize("cut", [0, 1, 5, 12, 13, 40])
@pytest.mark.parametrize("step", [1, 7, 100_000])
def test_bytes_from_the_middle_of_a_frame_on_are_0_10(cut: int, step: int, port: int) -> None:
    client, server = recorded.directions(recorded.QPIDD)
    passed: list[Decoded] = []
    ends = (Endpoint(address("10.0.0.1"), 50_000), Endpoint(address("10.0.0.2"), port))
    talk = Conversation(Opened(0, 0, ends, False), Tally())
    halves = [each.data[700 + cut : 2700] for each in (client, server)]
    for at in range(0, 2000, step):
        for direction, data in enumerate(halves):
            if data[at : at + step]:
                talk.data(direction, at, data[at : at + step], passed)
    for direction in (0, 1):
        talk.end(direction, 2000, StreamEnd.END, passed)
    assert {each.connection for each in passed} == {f"10.0.0.1:50000-10.0.0.2:{port}"}
    for direction, data in zip((client, server), halves, strict=True):
        sender = CLIENT if direction is client else SERVER
        found = b"".join(raw for _, of, raw in raws(passed) if of == sender)
        skipped = [each for each in passed if isinstance(each, SkippedBytes) and each.sender == sender]
        assert len(found) + sum(each.lost for each in skipped) == len(data)
        assert found in data
        assert len(found) > 500
        assert all(each.protocol == "0-10" for each in skipped)

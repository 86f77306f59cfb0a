"""Recorded connections of 0-10, decoded from their captures: each frame that was sent, with its command's id."""

import json

import pytest

from amqproxy.capture.decode import read_decoded
from amqproxy.capture.decoded import Decoded, DecodedAMQP010Frames, DecodedProtocolHeader, SkippedBytes, records_of
from amqproxy.capture.json_lines import JSONLines
from amqproxy.peer import CLIENT, SERVER
from tests.amqp010 import recorded


def decoded(name: str) -> list[Decoded]:
    (path,) = recorded.FOLDER.glob(f"{name}.pcap*")
    return list(read_decoded(path, reads_amqp010=True))


@pytest.mark.parametrize("name", recorded.SESSIONS)
def test_every_frame_is_there(name: str) -> None:
    found: dict[tuple[int, str], list[bytes]] = {}
    for each in decoded(name):
        if isinstance(each, DecodedAMQP010Frames):
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
    for each in decoded(recorded.QPIDD):
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
    headers = [each for each in decoded(recorded.NEGOTIATIONS[0]) if isinstance(each, DecodedProtocolHeader)]
    assert {each.protocol for each in headers if each.sender == SERVER} == {"0-10"}
    assert len({each.protocol for each in headers if each.sender == CLIENT}) > 3


def test_lines_of_json_are_those_of_records() -> None:
    passed = decoded(recorded.QPIDD)
    lines = JSONLines(body=10)
    for each in passed:
        lines.add(each)
    expected = [record.to_json() for each in passed for record in records_of(each, body=10)]
    assert lines.take().splitlines() == expected
    assert json.loads(expected[20])["protocol"] == "0-10"


def test_without_being_asked_for_it_is_counted_as_another_protocol() -> None:
    (path,) = recorded.FOLDER.glob(f"{recorded.QPIDD}.pcap*")
    reasons = [each.reason for each in read_decoded(path) if isinstance(each, SkippedBytes)]
    assert reasons == ["0-10 is not decoded", "0-10 is not decoded"]

"""What is read from a recording of AMQP 0-10 is what was shown while the proxy ran."""

from __future__ import annotations

import io
from typing import Any

import msgspec
import pytest

from amqproxy.amqp010.commands import ExecutionSync
from amqproxy.amqp010.errors import FramingError
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.decoded import records_of
from amqproxy.peer import CLIENT, SERVER
from amqproxy.recording.entry import Entry
from amqproxy.recording.entry_queue import EntryQueue
from amqproxy.recording.recorder_tap import RecorderTap
from amqproxy.recording.recording_encoder import RecordingEncoder
from amqproxy.taps.frame_tap import FrameTap
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.record import Record
from amqproxy.taps.record_queue import RecordQueue
from tests.proxy.amqp010_script import ATTACH, CLOSE, DETACH, FAILURE, LOGIN, MESSAGES, Showing, method, transfer
from tests.taps.sessions import Session

NAME = "10.0.0.1:4711-10.0.0.9:5672"
ALL = [*LOGIN, *ATTACH, *MESSAGES, *DETACH, *ATTACH, *FAILURE, *CLOSE]


class Recorded:
    """A session that is shown to a tap that makes records and to one that makes entries."""

    def __init__(self, memory: int = 1 << 30, body: int = 0) -> None:
        self.session = Session(name=NAME)
        self.records = RecordQueue(100_000, 1 << 30, Metrics(), lambda: None)
        self.entries = EntryQueue(memory)
        self.dropped = 0
        self.tap = RecorderTap(self.entries, lambda *_: None, self._drop, clock=lambda: 5)
        self.showing = Showing(self.session, FrameTap(self.records, body=body, clock=lambda: 5), self.tap)
        self.show = self.showing.show

    def _drop(self, count: int) -> None:
        self.dropped += count

    @property
    def live(self) -> list[dict[str, Any]]:
        return [facts(record) for record in self.records.waiting_records() if isinstance(record, Record)]

    def taken(self) -> list[Entry]:
        return self.entries.take(1 << 30)


def facts(record: Record) -> dict[str, Any]:
    found = msgspec.json.decode(record.to_json())
    return {name: value for name, value in found.items() if name not in ("stream", "connection", "ts_ns")}


def written(encoder: RecordingEncoder, entries: list[Entry]) -> bytes:
    return encoder.begin(5) + b"".join(bytes(piece) for entry in entries for piece in encoder.encode(entry))


def read(data: bytes, leg: str = "client", body: int = 0) -> list[dict[str, Any]]:
    found = []
    for decoded in read_decoded(io.BytesIO(data), leg=leg):
        found += [facts(record) for record in records_of(decoded, body=body)]
    return found


@pytest.mark.parametrize("leg", ["client", "upstream"])
def test_it_decodes_to_the_records_that_were_shown(leg: str) -> None:
    recorded = Recorded()
    recorded.show(*ALL)
    recorded.tap.saw_end(recorded.session, "client closed")
    data = written(RecordingEncoder(), recorded.taken())
    assert read(data, leg) == recorded.live
    assert b"hidden" not in data
    assert b"guest" in data


def test_each_file_of_several_can_be_read_and_all_as_one() -> None:
    recorded = Recorded()
    encoder = RecordingEncoder()
    files = []
    for step in ALL:
        recorded.show(step)
        files.append(written(encoder, recorded.taken()))
    assert read(b"".join(files)) == recorded.live
    one_by_one = [each for file in files for each in read(file)]
    assert [{**each, "command_id": None} for each in one_by_one] == [
        {**each, "command_id": None} for each in recorded.live
    ]


def test_one_that_is_joined_in_the_middle() -> None:
    recorded = Recorded()
    late = Recorded()
    recorded.show(*LOGIN, *ATTACH)
    late.showing._numberings, late.showing._readers = recorded.showing._numberings, recorded.showing._readers
    late.show(*MESSAGES, *DETACH, *ATTACH, *MESSAGES)
    found = read(written(RecordingEncoder(), late.taken()))
    assert [{**each, "command_id": None} for each in found] == [{**each, "command_id": None} for each in late.live]
    assert found[-1]["command_id"] == late.live[-1]["command_id"]


@pytest.mark.parametrize("body", [0, 5, 4000])
def test_bodies_that_are_kept_in_part(body: int) -> None:
    recorded = Recorded(body=body)
    recorded.show(*ALL)
    data = written(RecordingEncoder(body=body), recorded.taken())
    found = read(data, body=body)
    lost = [each.pop("lost", None) for each in found]
    assert found == recorded.live
    assert any(lost)


def test_what_there_is_no_room_for_is_missing_and_counted() -> None:
    recorded = Recorded(memory=6000)
    recorded.show(*LOGIN, *ATTACH, MESSAGES[0])
    entries = recorded.taken()
    recorded.entries.done(entries)
    assert recorded.dropped == 12
    recorded.show(*DETACH)
    data = written(RecordingEncoder(), entries + recorded.taken())
    found = read(data)
    reasons = [each.get("reason", "") for each in found if each["type"] == "error"]
    assert len(reasons) == 1
    assert "missing" in reasons[0]
    assert found[-1]["method"] == "session.detached"


def test_what_cannot_be_written_is_missing_and_counted() -> None:
    recorded = Recorded()
    recorded.show(*LOGIN, *ATTACH)
    encoder = RecordingEncoder()
    data = written(encoder, recorded.taken())
    encoder.note_written()
    recorded.show(MESSAGES[0])
    unwritten = recorded.taken()
    for entry in unwritten:
        encoder.encode(entry)
    encoder.note_unwritten(unwritten)
    recorded.show(*MESSAGES[3:4], *DETACH)
    data += b"".join(bytes(piece) for entry in recorded.taken() for piece in encoder.encode(entry))
    found = read(data)
    assert b"12 frames before this not recorded" in data
    (command,) = [each for each in found if each["type"] == "command"]
    assert command["method"] == "message.subscribe"
    assert "command_id" not in command, "some are missing before it"


def test_a_violation_is_recorded() -> None:
    recorded = Recorded()
    recorded.show(*LOGIN)
    error = FramingError("no frame", offset=123)
    error.received = b"\xff" * 12 + method(ExecutionSync())
    for tap in recorded.showing.taps:
        tap.saw_violation(recorded.session, CLIENT, error)
    recorded.show(*CLOSE[1:])
    data = written(RecordingEncoder(), recorded.taken())
    assert b"violation by the client: 501" in data
    (wrong,) = [each for each in read(data) if each["type"] == "error"]
    (live,) = [each for each in recorded.live if each["type"] == "error"]
    assert (wrong["code"], live["code"], wrong["protocol"], live["protocol"]) == (501, 501, "0-10", "0-10")


def test_a_violation_before_the_login_could_be_one() -> None:
    recorded = Recorded()
    recorded.show(*LOGIN[:2])
    error = FramingError("no frame")
    error.received = b"\xffsecret thing"
    recorded.tap.saw_violation(recorded.session, CLIENT, error)
    assert b"secret thing" not in written(RecordingEncoder(), recorded.taken())


def test_a_large_message_is_in_several_packets() -> None:
    recorded = Recorded()
    recorded.show(*LOGIN, *ATTACH, (CLIENT, transfer(b"x" * 200_000)), (SERVER, ATTACH[1][1]))
    assert read(written(RecordingEncoder(), recorded.taken())) == recorded.live

"""Exported captures: they decode to what was selected, and other tools read them."""

from __future__ import annotations

import io
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from amqproxy.amqp091.frame import BODY, HEADER, Frame, encode_frame, encode_method
from amqproxy.amqp091.methods import BasicPublish
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.decoded import Decoded, SkippedBytes, StreamEnded, records_of
from amqproxy.capture.filtering import filtered
from amqproxy.capture.observed import observed
from amqproxy.export.packets import ExportedPackets
from amqproxy.export.whole_commands import Shows, whole_commands
from amqproxy.rules.matching.filters import compiled
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.observer import ObserverSettings
from amqproxy.taps.record import json_mapping
from tests.amqp010 import recorded
from tests.capture import golden, shared_captures
from tests.export.dialogue import STEP_NS, Dialogue
from tests.real.require import require

DAMAGED = ("dropped", "snapped", "joined-midway")
SPEAKS_0_9_1 = ("elastic", "deepflow", "rabbitmq3.10__pika")
CAPTURES = [
    *(path for path in golden.captures() if not any(each in path.name for each in DAMAGED)),
    *(path for path in shared_captures.files() if path.name.startswith(SPEAKS_0_9_1)),
    *map(recorded.capture, recorded.SESSIONS),
]
FILTERS = [
    "method.startsWith('basic.')",
    "sender == 'server'",
    "size > 100",
    "exchange == 'orders' || queue != ''",
    "false",
]


def exported(decoded: Iterable[Decoded], expression: str = "", shows: Shows = lambda ts_ns, channel: True) -> bytes:
    packets = ExportedPackets()
    chosen = whole_commands(packets.see(decoded), shows, compiled(expression) if expression else None)
    data = packets.begin("a test") + b"".join(packets.write(chosen))
    assert packets._connections == {}
    assert packets._is_joined == {}
    return data


def reread(data: bytes, leg: str = "client") -> list[Decoded]:
    return list(read_decoded(io.BytesIO(data), leg=leg))


def read(path: Path) -> list[Decoded]:
    return list(read_decoded(path))


def records(decoded: Iterable[Decoded]) -> list[dict[str, Any]]:
    """Without the numbers of connections, of which there may be fewer."""
    found = [json_mapping(_plain(record)) for each in decoded for record in records_of(each, body=64)]
    return [{name: value for name, value in record.items() if name != "stream"} for record in found]


def _plain(record: Any) -> dict[str, Any]:
    return msgspec.json.decode(record.to_json())


def ids(path: Path) -> str:
    return path.name.partition(".pcap")[0]


@pytest.mark.parametrize("path", CAPTURES, ids=ids)
def test_the_export_of_a_capture_decodes_to_the_same(path: Path) -> None:
    original = read(path)
    again = reread(exported(original))
    assert records(again) == records(original)
    messages = [
        [each.to_json() for each in observed(one, ObserverSettings(findings=True))] for one in (original, again)
    ]
    if not path.name.startswith("deepflow"):  # where a connection without AMQP has taken the first number
        assert messages[0] == messages[1]


@pytest.mark.parametrize("expression", FILTERS)
def test_the_export_of_a_selection_decodes_to_the_selection(expression: str) -> None:
    """But for what could not be read, for offsets, as there are fewer bytes before what is malformed, and for ids of
    commands, which would be others.
    """
    for path in CAPTURES:
        decoded = read(path)
        chosen = records(each for each in filtered(decoded, compiled(expression)) if not isinstance(each, SkippedBytes))
        wanted = [each for each in chosen if each.get("method") != "session.command-point"]
        again = records(reread(exported(decoded, expression)))
        assert [_without(each, "offset") for each in again] == [
            _without(each, "offset", "command_id") for each in wanted
        ], path


@pytest.mark.parametrize("name", DAMAGED)
def test_what_is_missing_is_missing_in_the_export(name: str) -> None:
    """Where the beginning is missing, nothing is said of it."""
    original = list(read_decoded(golden.FOLDER / f"consume-large.{name}.pcapng"))
    again = reread(exported(original))
    frames = [[each for each in records(one) if each["type"] != "error"] for one in (original, again)]
    assert [_without(each, "ts_ns") for each in frames[0]] == [_without(each, "ts_ns") for each in frames[1]]
    lost = [[each.lost for each in one if isinstance(each, SkippedBytes)] for one in (original, again)]
    assert lost[1] == (lost[0][1:] if name == "joined-midway" else lost[0])


@pytest.mark.parametrize("part", [0.15, 0.4, 0.9])
@pytest.mark.parametrize("name", recorded.SESSIONS)
def test_what_was_joined_midway_is_so_in_the_export(name: str, part: float) -> None:
    original = recorded.decoded_from(name, part)
    again = reread(exported(original))
    frames = [[each for each in records(one) if each["type"] != "error"] for one in (original, again)]
    assert frames[0] == frames[1]


def test_one_session_of_several_is_exported_with_the_ids_of_its_commands() -> None:
    original = recorded.decoded(recorded.QPIDD)
    again = reread(exported(original, shows=lambda ts_ns, channel: channel == 2))
    wanted = [each for each in records(original) if each["type"] != "protocol-header" and each["channel"] == 2]
    assert records(again) == wanted
    assert any("command_id" in each for each in wanted)


def _without(record: dict[str, Any], *left_out: str) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in left_out}


def test_a_command_is_never_cut_by_time() -> None:
    dialogue = Dialogue()
    publish, header = BasicPublish(routing_key="q"), ContentHeader(6).encode()
    parts = [encode_method(1, publish), encode_frame(HEADER, 1, header)]
    parts += [encode_frame(BODY, 1, b"abc"), encode_frame(BODY, 1, b"def")]
    begin = dialogue.decoded[-1].ts_ns + STEP_NS
    for round in range(2):
        for place, part in enumerate(parts):
            ts_ns = begin + (4 * round + place) * STEP_NS
            dialogue.decoded.append(Amqp091DecodedFrames(ts_ns, 0, dialogue.connection, "client", [Frame(part)]))
    decoded = dialogue.end()
    for first, last, whole in ((0, 0, [0]), (1, 4, [1]), (1, 3, []), (3, 8, [1]), (0, 4, [0, 1])):
        shows = lambda ts_ns, channel: begin + first * STEP_NS <= ts_ns <= begin + last * STEP_NS  # noqa: B023, E731
        again = reread(exported(decoded, shows=shows))
        found = [each.ts_ns for each in again if isinstance(each, Amqp091DecodedFrames)]
        assert found == [begin + (4 * round + place) * STEP_NS for round in whole for place in range(4)]


def test_bodies_of_any_size_and_truncated_ones_are_exported() -> None:
    dialogue = Dialogue()
    dialogue.publish("", "q", b"x" * 125_000)
    lost = Frame(encode_frame(BODY, 1, b"seen" + bytes(96)), 0, 96)
    large = Frame(encode_frame(BODY, 1, b"seen" + bytes(99_996)), 0, 99_996)
    for body in (lost, large):
        frames = [Frame(encode_method(1, BasicPublish(routing_key="q")))]
        frames += [Frame(encode_frame(HEADER, 1, ContentHeader(body.size).encode())), body]
        dialogue._add("client", frames)
    dialogue.publish("", "q", b"behind")
    again = reread(exported(dialogue.end()))
    bodies = [
        frame for each in again if isinstance(each, Amqp091DecodedFrames) for frame in each.frames if frame.kind == BODY
    ]
    assert [(frame.size, frame.lost) for frame in bodies] == [(125_000, 0), (100, 96), (100_000, 99_996), (6, 0)]
    assert [frame.known_payload[:6] for frame in bodies[1:]] == [b"seen", b"seen", b"behind"]


def test_notes_and_legs_are_kept() -> None:
    dialogue = Dialogue()
    note = Note(rules=('no, "really"',), tags=("a",), verdict="refused", leg="client")
    ts_ns = dialogue.decoded[-1].ts_ns
    upstream = "10.0.0.2:50000-10.0.0.3:5672"
    for stream, (leg, name) in enumerate((("client", dialogue.connection), ("upstream", upstream))):
        frames = [Frame(encode_method(1, BasicPublish(routing_key=leg)))]
        dialogue.decoded.append(Amqp091DecodedFrames(ts_ns, stream, name, "client", frames, leg, note))
    dialogue.decoded.append(StreamEnded(ts_ns, 1, upstream, "the capture ends"))
    data = exported(dialogue.end())
    (client,) = [each for each in reread(data) if isinstance(each, Amqp091DecodedFrames) and each.note != NOTHING]
    assert (client.leg, client.note) == ("client", note)
    legs = [
        each.leg for each in reread(data, "both") if isinstance(each, Amqp091DecodedFrames) and each.note != NOTHING
    ]
    assert legs == ["client", "upstream"]


def test_notes_of_0_10_are_kept() -> None:
    note = Note(rules=("no",), tags=("a",), verdict="changed")
    original = recorded.decoded(recorded.QPIDD)
    place = next(index for index, each in enumerate(original) if isinstance(each, Amqp010DecodedFrames))
    original[place] = msgspec.structs.replace(original[place], note=note)
    again = reread(exported(original))
    assert [each.note for each in again if isinstance(each, Amqp010DecodedFrames) and each.note != NOTHING] == [note]


def test_logins_are_not_exported() -> None:
    for path in golden.captures():
        data = exported(read_decoded(path))
        assert b"\0guest\0guest" not in data
        assert b"\0guest\0wrong" not in data
    for path in recorded.captures():
        assert b"\0guest\0guest" not in exported(read(path))
    assert b"\0app\0secret" not in exported(Dialogue().end())
    assert b"\0app\0******" in exported(Dialogue().end())


@pytest.mark.parametrize(
    "reason", ["client closed without connection.close", "server reset the connection", "the capture ends"]
)
def test_an_end_is_exported(reason: str) -> None:
    again = reread(exported(Dialogue().end(reason)))
    assert again[-1].reason == reason


@pytest.mark.real
@pytest.mark.parametrize("expression", ["", "method.startsWith('basic.')"])
def test_tshark_reads_an_export(expression: str, tmp_path: Path) -> None:
    for name in ("publish-get-ack", "consume-large", "confirms.ports-reused"):
        original = list(read_decoded(golden.FOLDER / f"{name}.pcapng"))
        data = exported(original, expression)
        path = tmp_path / f"{name}.pcapng"
        path.write_bytes(data)
        again = [frame for each in reread(data) if isinstance(each, Amqp091DecodedFrames) for frame in each.frames]
        port = original[0].connection.rpartition(":")[2]
        command = [require("tshark"), "-2", "-r", path, "-d", f"tcp.port=={port},amqp", "-T", "fields"]
        fields = ["amqp.type", "_ws.malformed", "tcp.analysis.lost_segment", "tcp.analysis.retransmission"]
        for field in fields:
            command += ["-e", field]
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        seen = [line.split("\t") for line in lines]
        assert [int(kind) for row in seen for kind in row[0].split(",") if kind] == [frame.kind for frame in again]
        assert not any(cell for row in seen for cell in row[1:])


def test_bodies_without_their_method_are_chosen_by_their_own_time() -> None:
    """A capture that was joined inside a message: nothing after `--end` is exported."""
    bodies = [
        Amqp091DecodedFrames(second, 1, "a-b", "client", [Frame(encode_frame(BODY, 1, b"x"))]) for second in range(6)
    ]
    for shown in (range(3), range(3, 6)):
        chosen = whole_commands(bodies, lambda ts_ns, channel, shown=shown: ts_ns in shown)
        assert [each.ts_ns for each in chosen] == list(shown)

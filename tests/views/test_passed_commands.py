"""Commands put together from the frames of a capture."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from amqproxy.amqp010.assembly import Assembly as Amqp010Assembly
from amqproxy.amqp010.commands import MessageTransfer
from amqproxy.amqp010.frame import Frame as Amqp010Frame
from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import HEARTBEAT_FRAME, Frame, encode_frame
from amqproxy.amqp091.methods import BasicPublish, ChannelOpen
from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.decoded import Decoded, SkippedBytes, StreamEnded, records_of
from amqproxy.taps.note import NOTHING, Note
from amqproxy.views.passed_command import PassedCommand, PassedKind
from amqproxy.views.passed_commands import commands_of
from tests.amqp010 import recorded as amqp010
from tests.capture import golden
from tests.views.followed import decoded, records

PUBLISH = BasicPublish(exchange="orders", routing_key="new")


@pytest.mark.parametrize("name", [path.name.partition(".pcap")[0] for path in golden.captures()])
def test_each_method_of_a_capture_is_one_command(name: str) -> None:
    passed = decoded(name)
    everything = records(passed)
    commands = [each for each in commands_of(passed) if each.method is not None]
    assert Counter((each.stream, each.sender, each.channel, each.method.name) for each in commands if each.method) == (
        Counter((each.stream, each.sender, each.channel, each.method) for each in everything if each.type == "method")
    )
    whole = [each for each in commands if each.kind is PassedKind.COMMAND]
    assert sum(each.size or 0 for each in whole) <= sum(each.size or 0 for each in everything if each.type == "body")
    if name == "publish-get-ack":
        assert all(each.kind is PassedKind.COMMAND for each in commands)


def frames(*given: Frame, sender: str = "client", ts_ns: int = 1) -> Amqp091DecodedFrames:
    return Amqp091DecodedFrames(ts_ns, 0, "a:1-b:2", sender, list(given))


def publish(body: bytes, channel: int = 1) -> list[Frame]:
    data = Command(channel, PUBLISH, body=body).encode(4096)
    found = []
    while data:
        size = int.from_bytes(data[3:7]) + 8
        found.append(Frame(data[:size]))
        data = data[size:]
    return found


def kinds(passed: list[Decoded]) -> list[tuple[PassedKind, int | None]]:
    return [(each.kind, each.size) for each in commands_of(passed)]


def test_contents_of_two_channels_may_be_interleaved() -> None:
    one, two = publish(b"a" * 5000, 1), publish(b"b" * 10, 2)
    mixed = [one[0], two[0], one[1], one[2], two[1], two[2], one[3]]
    found = list(commands_of([frames(each, ts_ns=ts_ns) for ts_ns, each in enumerate(mixed)], body=6))
    assert [(each.channel, each.size, each.body, each.ts_ns) for each in found] == [
        (2, 10, b"bbbbbb", 5),
        (1, 5000, b"aaaaaa", 6),
    ]


def test_what_is_cut_is_said() -> None:
    start = publish(b"a" * 5000)
    another = Frame(encode_frame(1, 1, ChannelOpen().encode()))
    lost = SkippedBytes(9, 0, "a:1-b:2", "client", "0-9-1", "lost", 0, 7)
    end = StreamEnded(9, 0, "a:1-b:2", "over")
    cut, command, over = PassedKind.CUT_COMMAND, PassedKind.COMMAND, PassedKind.END
    assert kinds([frames(*start[:1], another)]) == [(cut, None), (command, None)]
    assert kinds([frames(*start[:3]), lost]) == [(cut, 5000), (PassedKind.ERROR, None)]
    assert kinds([frames(*start[:2]), end]) == [(cut, 5000), (over, None)]
    assert kinds([frames(*start[:2])]) == [(cut, 5000)]
    stray = PassedKind.STRAY_CONTENT
    assert kinds([frames(*start[1:])]) == [(stray, start[1].size), *((stray, each.size) for each in start[2:])]


CHANGED = {leg: Note(("tag",), (), "changed", leg) for leg in ("client", "upstream")}


def test_a_rewritten_command_is_one_on_each_leg_though_its_body_is_shown_once() -> None:
    method, header, body = publish(b"12")
    shown = [(each, CHANGED[leg]) for leg in CHANGED for each in (method, header)] + [(body, Note(verdict="changed"))]
    passed = [msgspec.structs.replace(frames(each), note=note) for each, note in shown]
    found = list(commands_of(passed))
    assert [(each.kind, each.size, each.note.leg) for each in found] == [
        (PassedKind.COMMAND, 2, "client"),
        (PassedKind.COMMAND, 2, "upstream"),
    ]


def test_what_was_refused_before_its_body_keeps_its_note() -> None:
    refused = Note(("no",), (), "refused", "client")
    passed = [msgspec.structs.replace(frames(*publish(b"12")[:1]), note=refused), frames(*publish(b"3"))]
    found = list(commands_of(passed))
    assert [(each.kind, each.note) for each in found] == [
        (PassedKind.CUT_COMMAND, refused),
        (PassedKind.COMMAND, NOTHING),
    ]


def test_what_is_no_command() -> None:
    broken = Frame(encode_frame(2, 1, b"\0\x3c\0\0\0\0\0\0\0\0\0\x05\xff\xff"))
    found: list[PassedCommand] = list(commands_of([frames(Frame(HEARTBEAT_FRAME), *publish(b"")[:1], broken)]))
    assert [each.kind for each in found] == [PassedKind.HEARTBEAT, PassedKind.CUT_COMMAND, PassedKind.ERROR]
    assert "bytes lost" in found[2].text


# --- AMQP 0-10


def passed_amqp010(name: str) -> list[Decoded]:
    (path,) = amqp010.FOLDER.glob(f"{name}.pcap*")
    return list(read_decoded(path))


@pytest.mark.parametrize("name", amqp010.SESSIONS)
def test_each_control_and_command_of_0_10_is_one(name: str) -> None:
    passed = passed_amqp010(name)
    everything = [record for each in passed for record in records_of(each)]
    commands = [each for each in commands_of(passed) if each.method is not None]
    assert Counter((each.stream, each.sender, each.channel, each.method.name) for each in commands if each.method) == (
        Counter(
            (each.stream, each.sender, each.channel, each.method)
            for each in everything
            if each.type in ("control", "command")
            and each.method != "connection.heartbeat"
            and "B" in (each.flags or "")
        )
    )
    ids = [(each.sender, each.command_id) for each in commands if each.command_id is not None]
    assert Counter(ids) == Counter((each.sender, each.command_id) for each in everything if each.type == "command")
    assert sum(each.size or 0 for each in commands) == sum(each.size or 0 for each in everything if each.type == "body")
    assert all(each.kind is PassedKind.COMMAND for each in commands)


def test_a_rewritten_transfer_is_one_on_each_leg() -> None:
    transfer = Amqp010Frame(Amqp010Assembly(1, MessageTransfer(accept_mode=0, acquire_mode=0)).encode())
    passed = [
        Amqp010DecodedFrames(1, 0, "a:1-b:2", "client", [transfer], command_ids=[5], note=note)
        for note in CHANGED.values()
    ]
    assert [(each.kind, each.note.leg) for each in commands_of(passed)] == [
        (PassedKind.COMMAND, "client"),
        (PassedKind.COMMAND, "upstream"),
    ]


def test_a_transfer_that_is_cut_is_shown_as_such() -> None:
    transfer = Amqp010Assembly(1, MessageTransfer(accept_mode=0, acquire_mode=0), None, b"x" * 3000).encode(1000)
    frames, start = [], 0
    while start < len(transfer):
        end = start + int.from_bytes(transfer[start + 2 : start + 4])
        frames.append(Amqp010Frame(transfer[start:end]))
        start = end
    decoded_frames = Amqp010DecodedFrames(
        1, 0, "a:1-b:2", "client", frames[1:2] + frames[:3], command_ids=[None, 5, 5, 5]
    )
    found = list(commands_of([decoded_frames, StreamEnded(2, 0, "a:1-b:2", "over")]))
    assert [each.kind for each in found] == [PassedKind.STRAY_CONTENT, PassedKind.CUT_COMMAND, PassedKind.END]
    assert (found[1].command_id, found[1].size) == (5, 2 * 988)

"""Drains to files, and fills from them: what is in a file is complete, and on the disk before it leaves the queue."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any

import pika
import pytest

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import BODY, HEADER, Frame, encode_frame, encode_method
from amqproxy.amqp091.methods import BasicGetOk
from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.moving.message_forwarder import MoveFailed
from amqproxy.rules.matching.filters import compiled
from amqproxy.workbench import fill
from amqproxy.workbench.batch_failure import BatchFailure
from amqproxy.workbench.confirming_publisher import ConfirmingPublisher
from amqproxy.workbench.destination import ToExchange, ToQueue
from amqproxy.workbench.drain import Drain
from amqproxy.workbench.fill import Filling, messages_of_lines
from amqproxy.workbench.held_message import HeldMessage
from amqproxy.workbench.message_capture import CapturedMessages, MessageCapture
from amqproxy.workbench.message_line import line_of
from amqproxy.workbench.queue_facts import Given
from amqproxy.workbench.queue_reader import LARGEST_BODY
from amqproxy.workbench.run_report import RunReport
from tests.workbench.bench_queue import BenchAt


def drained(bench: BenchAt, queue: str, path: Path, **selection: Any) -> RunReport:
    if path.suffix == ".pcapng":
        capture = MessageCapture(queue, "/")
        action = Drain(path, capture.encode, begin=capture.begin())
    else:
        action = Drain(path, lambda message: line_of(message, queue).to_json() + b"\n")
    try:
        return bench.settled(queue, action, **selection)
    finally:
        action.close()


def filled(bench: BenchAt, queue: str, path: Path, destination: Any = None, **selection: Any) -> RunReport:
    messages = (CapturedMessages if path.suffix == ".pcapng" else messages_of_lines)(path)

    async def work(at: Any, plan: Any, told: Any, report: RunReport) -> None:
        await Filling().run(at, destination or ToQueue(queue), messages, plan, told, report)

    return bench.run("fill", queue, work, Given(), **selection)


@pytest.mark.parametrize("name", ["dead.jsonl", "dead.pcapng"])
def test_what_was_drained_can_be_filled_in_again(bench: BenchAt, tmp_path: Path, name: str) -> None:
    source, target = bench.declare(), bench.declare()
    bodies = [b"%d" % number for number in range(300)] + [b"", b"\xff" * 300_000]
    bench.publish(source, bodies, headers={"a": [1, {"b": True}]}, type="t")
    path = tmp_path / name
    assert drained(bench, source, path).done == len(bodies)
    assert bench.depth(source) == 0
    assert filled(bench, target, path).done == len(bodies)
    found = bench.taken(target)
    assert [body for _, _, body in found] == bodies
    assert found[0][1] == pika.BasicProperties(headers={"a": [1, {"b": True}]}, type="t")
    assert found[0][0].routing_key == source


def test_what_is_not_chosen_stays(bench: BenchAt, tmp_path: Path) -> None:
    source, target = bench.numbered(5), bench.declare()
    path = tmp_path / "dead.jsonl"
    assert drained(bench, source, path, where="headers.n > 2").done == 2
    assert bench.bodies(source) == [b"0", b"1", b"2"]
    assert filled(bench, target, path, where=compiled("headers.n > 3")).done == 1
    assert filled(bench, target, path, position=1).done == 1
    assert filled(bench, target, path, limit=1, is_dry_run=True).done == 1
    assert bench.bodies(target) == [b"4", b"4"]


def test_a_file_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "dead.jsonl"
    path.write_text("mine")
    for is_dry_run in (False, True):
        with pytest.raises(MoveFailed, match="exists"):
            Drain(path, lambda message: b"", is_dry_run=is_dry_run)
    assert path.read_text() == "mine"


def test_a_full_disk_leaves_all_in_the_queue(bench: BenchAt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = bench.numbered(3)
    path = tmp_path / "dead.jsonl"

    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    action = Drain(path, lambda message: line_of(message, source).to_json() + b"\n")
    monkeypatch.setattr(os, "fsync", fail)
    monkeypatch.setattr(bench, "state", None)
    report = bench.settled(source, action)
    action.close()
    assert "No space left" in report.failure
    assert path.read_bytes() == b""
    assert bench.bodies(source) == [b"0", b"1", b"2"]


def test_a_wrong_line_is_named(bench: BenchAt, tmp_path: Path) -> None:
    path = tmp_path / "dead.jsonl"
    path.write_text('{"body": "1"}\n{"body": 2}\n')
    target = bench.declare()
    assert f"{path}:2:" in filled(bench, target, path, ToExchange("", target)).failure


def test_a_missing_file_is_named(bench: BenchAt, tmp_path: Path) -> None:
    assert "No such file" in filled(bench, bench.declare(), tmp_path / "none").failure


def got(body: bytes, position: int = 0) -> HeldMessage:
    """A message that came in one frame, however large."""
    frames = [
        encode_method(1, BasicGetOk(1, exchange="x", routing_key="k")),
        encode_frame(HEADER, 1, ContentHeader(len(body), Properties(type="t")).encode()),
        encode_frame(BODY, 1, body),
    ]
    return HeldMessage(Command.received([Frame(each) for each in frames]), position)


def test_messages_of_a_connection_with_large_frames_can_be_read_again(tmp_path: Path) -> None:
    path, capture = tmp_path / "dead.pcapng", MessageCapture("q", "/")
    messages = [got(b"a" * 131_064), got(b"b" * 131_065), got(b"c" * 1_000_000), got(b"d")]
    path.write_bytes(capture.begin() + b"".join(capture.encode(each) for each in messages))
    captured = CapturedMessages(path)
    assert [message.body for message in captured] == [message.body for message in messages]
    captured.check()


def test_messages_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    path, capture = tmp_path / "dead.pcapng", MessageCapture("q", "/")
    packets = capture.begin() + capture.encode(got(b"1")) + capture.encode(got(b"2" * 300_000, 1))
    path.write_bytes(packets[: _last_packet(packets)] + capture.encode(got(b"3", 2)))
    captured = CapturedMessages(path)
    bodies = [message.body for message in captured]
    assert (bodies[0], b"2" * 300_000 in bodies) == (b"1", False)
    with pytest.raises(MoveFailed, match=f"{path} cannot be read at . places"):
        captured.check()


def test_a_capture_that_ends_within_a_message_is_said(tmp_path: Path) -> None:
    path, capture = tmp_path / "dead.pcapng", MessageCapture("q", "/")
    packets = capture.begin() + capture.encode(got(b"1")) + capture.encode(got(b"2" * 300_000, 1))
    path.write_bytes(packets[: _last_packet(packets)])
    captured = CapturedMessages(path)
    assert [message.body for message in captured] == [b"1"]
    with pytest.raises(MoveFailed, match=r"cannot be read at 2 places, .*: the capture ends within a frame"):
        captured.check()


def test_a_body_above_the_proxys_limit_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert LARGEST_BODY == 512 * 1024 * 1024
    path, capture = tmp_path / "dead.pcapng", MessageCapture("q", "/")
    path.write_bytes(capture.begin() + capture.encode(got(b"1" * 20)))
    monkeypatch.setattr("amqproxy.workbench.message_capture.LARGEST_BODY", 10)
    captured = CapturedMessages(path)
    assert list(captured) == []
    with pytest.raises(MoveFailed, match="limit of 10"):
        captured.check()


def _last_packet(data: bytes) -> int:
    """Where the last block of a pcapng file begins."""
    return len(data) - int.from_bytes(data[-4:], sys.byteorder)


def test_a_line_that_the_target_does_not_take_stays_out(bench: BenchAt, tmp_path: Path) -> None:
    """A foreign user_id closes the channel."""
    path, target = tmp_path / "some.jsonl", bench.declare()
    lines = [b'{"body": "%d"}' % number for number in range(5)]
    lines[2] = b'{"body": "2", "properties": {"user_id": "nobody"}}'
    path.write_bytes(b"\n".join(lines) + b"\n")
    report = filled(bench, target, path)
    assert (report.done, report.left_count, report.uncertain, report.failure) == (4, 1, 0, "")
    assert "406" in report.left[0].reason
    assert sorted(set(bench.bodies(target))) == [b"0", b"1", b"3", b"4"]


def test_a_fill_that_fails_counts_up_to_the_first_unknown_message(
    bench: BenchAt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(self: ConfirmingPublisher, publications: Any) -> Any:
        self.unconfirmed = 1
        raise BatchFailure("lost", ["", "full", "", None, "", "full"])

    monkeypatch.setattr(ConfirmingPublisher, "publish", fail)
    path = tmp_path / "some.jsonl"
    path.write_bytes(b'{"body": "1"}\n' * 6)
    report = filled(bench, bench.declare(), path)
    assert (report.done, report.left_count, report.uncertain, report.failure) == (2, 1, 2, "lost")


def test_a_file_is_published_in_batches_of_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fill, "MAX_BYTES", 10)
    path = tmp_path / "some.jsonl"
    path.write_bytes(b'{"body": "123456"}\n' * 5 + b'{"body": ""}\n' * 100)
    messages = messages_of_lines(path)
    assert [len(fill._batch(messages)) for _ in range(6)] == [2, 2, 64, 37, 0, 0]


def test_messages_that_may_be_in_the_file_are_uncertain(
    bench: BenchAt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    source, path = bench.numbered(3), tmp_path / "dead.jsonl"
    action = Drain(path, lambda message: line_of(message, source).to_json() + b"\n")
    monkeypatch.setattr(bench, "state", None)
    for name in ("fsync", "ftruncate"):
        monkeypatch.setattr(os, name, fail)
    report = bench.settled(source, action)
    action.close()
    assert ("Input/output" in report.failure, report.uncertain, report.done) == (True, 3, 0)
    assert bench.bodies(source) == [b"0", b"1", b"2"]

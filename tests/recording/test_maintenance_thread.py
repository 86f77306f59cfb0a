"""What is done beside the writing: recovering, and compressing."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import structlog

from amqproxy.recording import maintenance_thread
from amqproxy.recording.maintenance_thread import ATTEMPTS, MaintenanceThread, compress
from amqproxy.recording.recording_directory import RecordingDirectory
from amqproxy.recording.recording_ring import RecordingRing

NAME = "amqproxy-20261121T174700.123456Z-1.pcapng"


def made(directory: Path, name: str = NAME) -> Path:
    file = directory / name
    file.write_bytes(b"x" * 1000)
    return file


def maintained(directory: Path, do: Callable[[MaintenanceThread], Any]) -> RecordingRing:
    ring = RecordingRing(None, None)
    thread = MaintenanceThread(RecordingDirectory(directory), ring, compresses=True)
    do(thread)
    thread.finish()
    ring.keep(0, 0)
    return ring


def test_what_was_there_is_found_and_compressed(tmp_path: Path) -> None:
    made(tmp_path)
    ring = maintained(tmp_path, MaintenanceThread.recover)
    (file,) = tmp_path.iterdir()
    assert file.name == NAME + ".zst"
    assert (ring.count, ring.size) == (1, file.stat().st_size)


def test_what_a_crash_has_kept_from_being_deleted_is_deleted(tmp_path: Path) -> None:
    file = made(tmp_path)
    kept = file.read_bytes()
    compress(file)
    file.write_bytes(kept)
    maintained(tmp_path, MaintenanceThread.recover)
    assert [each.name for each in tmp_path.iterdir()] == [NAME + ".zst"]


def test_what_another_compresses_is_left_to_it(tmp_path: Path, log: list[structlog.typing.EventDict]) -> None:
    file = made(tmp_path)
    made(tmp_path, NAME + ".zst.partial")
    maintained(tmp_path, lambda thread: thread.compress(file))
    assert file.exists()
    assert log == []


@pytest.mark.parametrize("times", [ATTEMPTS, ATTEMPTS + 1])
def test_what_another_disturbs_is_done_again(
    tmp_path: Path, times: int, monkeypatch: pytest.MonkeyPatch, log: list[structlog.typing.EventDict]
) -> None:
    file = made(tmp_path)
    left = times

    def disturbed(file: Path) -> Path:
        nonlocal left
        left -= 1
        if left >= 0:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return compress(file)

    monkeypatch.setattr(maintenance_thread, "compress", disturbed)
    maintained(tmp_path, lambda thread: thread.compress(file))
    assert file.exists() == (times > ATTEMPTS)
    assert [each["event"] for each in log] == ["recording not compressed"] * (times > ATTEMPTS)


def test_a_fault_of_ours_does_not_end_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: list[structlog.typing.EventDict]
) -> None:
    file = made(tmp_path)

    def recover_and_compress(thread: MaintenanceThread) -> None:
        thread.recover()
        thread.compress(file)

    monkeypatch.setattr(RecordingDirectory, "recover", lambda directory: 1 // 0)
    maintained(tmp_path, recover_and_compress)
    assert not file.exists()
    assert [each["event"] for each in log if each["log_level"] == "error"] == ["recordings not maintained"]

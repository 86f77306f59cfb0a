"""The files of a recording: each complete, the oldest deleted, and no failure of the disk that is not counted."""

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import structlog

from amqproxy.capture.packet_comment import lost_comment
from amqproxy.recording import recording_files
from amqproxy.recording.entry import file_end
from amqproxy.recording.recording_files import LOOK_NS, RETRY_NS, RecordingFiles
from tests.recording.recorded import NOW, SECOND, config, entry, shown

COMMIT = "1: tx.commit"


class Clock:
    """Nanoseconds since 1970, as a test sets them."""

    now_ns = NOW

    def __call__(self) -> int:
        return self.now_ns


def opened(
    directory: Path, clock: Clock | None = None, ask: Callable[[], None] | None = None, **given: Any
) -> RecordingFiles:
    clock = clock or Clock()
    files = RecordingFiles(config(directory, **given), clock, clock, ask)
    files.open()
    return files


def complete(directory: Path) -> list[Path]:
    return sorted(each for each in directory.iterdir() if not each.name.endswith((".partial", ".lock")))


def test_a_file_is_partial_until_it_is_complete(tmp_path: Path) -> None:
    files = opened(tmp_path)
    files.write([entry(COMMIT)])
    assert files.file.endswith(".pcapng.partial")
    assert complete(tmp_path) == []
    files.close()
    assert files.file == ""
    (file,) = tmp_path.iterdir()
    assert file.name.endswith(".pcapng")
    assert shown([file]) == ["client tx.commit"]
    assert files.count == 1
    assert files.size == file.stat().st_size


def test_a_file_without_packets_is_none(tmp_path: Path) -> None:
    clock = Clock()
    files = opened(tmp_path, clock)
    clock.now_ns += 10_000 * SECOND
    files.tick()
    assert complete(tmp_path) == []
    assert (files.count, files.packets) == (0, 0)
    files.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("compress", [False, True])
def test_the_disk_is_handed_what_was_written_before_a_sync(
    tmp_path: Path, compress: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording_files, "WRITE_BACK_BYTES", 10_000)
    handed: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda _, start, size, advice: handed.append((start, start + size)))
    files = opened(tmp_path, legs="client", compress=compress)
    for _ in range(100):
        files.write([entry("1: body 1000")])
    ends = [end for _, end in handed]
    assert 8 <= len(ends) <= 12
    assert files.size - ends[-1] < 10_000
    starts = [start for start, _ in handed]
    if compress:
        assert starts == [0, *ends[:-1]], "what is to be compressed stays in the page cache"
    else:
        assert starts[:5] == [0] * 5, "what is on the disk by now is forgotten"
    files.close()


def test_each_file_of_a_rotation_can_be_read_alone(tmp_path: Path) -> None:
    clock = Clock()
    files = opened(tmp_path, clock, file_size=65_536)
    for number in range(40):
        clock.now_ns += SECOND
        files.write([entry(f"1: body {4000 + number}", ts_ns=clock.now_ns), entry(COMMIT, ts_ns=clock.now_ns)])
    files.close()
    found = complete(tmp_path)
    assert len(found) > 2
    assert all(file.stat().st_size < 65_536 + 9000 for file in found)
    assert all(shown([file]) for file in found)
    assert len(shown([tmp_path])) == sum(len(shown([file])) for file in found) == 40


def test_the_next_file_begins_behind_the_end_that_was_asked_for(tmp_path: Path) -> None:
    clock = Clock()
    asked: list[int] = []
    files = opened(tmp_path, clock, file_size=65_536, ask=lambda: asked.append(clock.now_ns))
    before = [entry("1: body 9000") for _ in range(10)]
    files.write(before)
    files.write(before)
    assert (len(asked), complete(tmp_path)) == (1, [])
    files.write([entry(COMMIT), file_end(), entry("1: basic.qos")])
    files.close()
    first, second = (shown([file]) for file in complete(tmp_path))
    assert (first, second) == (["client tx.commit"], ["client basic.qos"])


def test_a_file_whose_end_does_not_come_ends_all_the_same(tmp_path: Path) -> None:
    clock = Clock()
    files = opened(tmp_path, clock, file_size=65_536, ask=lambda: None)
    files.write([entry("1: body 9000") for _ in range(10)])
    files.tick()
    assert complete(tmp_path) == []
    clock.now_ns += SECOND
    files.tick()
    assert len(complete(tmp_path)) == 1
    files.write([entry(COMMIT), file_end(), entry(COMMIT)])
    files.close()
    assert len(complete(tmp_path)) == 2


def test_a_file_ends_when_it_is_old(tmp_path: Path) -> None:
    clock = Clock()
    files = opened(tmp_path, clock, file_age=60.0)
    clock.now_ns += 1000 * SECOND
    files.write([entry(COMMIT)])
    clock.now_ns += 59 * SECOND
    files.tick()
    assert complete(tmp_path) == []
    clock.now_ns += SECOND
    files.tick()
    assert len(complete(tmp_path)) == 1
    assert files.file.endswith(".partial")
    files.write([entry(COMMIT)])
    files.close()
    assert len(complete(tmp_path)) == 2


@pytest.mark.parametrize("bound", [{"files": 3}, {"total_size": 250_000}])
def test_the_oldest_are_deleted(tmp_path: Path, bound: dict[str, int]) -> None:
    clock = Clock()
    files = opened(tmp_path, clock, file_size=65_536, **bound)
    first = ""
    for _ in range(60):
        clock.now_ns += SECOND
        files.write([entry("1: body 9000")])
        files.tick()
        first = first or files.file
        assert sum(each.stat().st_size for each in tmp_path.iterdir()) <= bound.get("total_size", 10**9) + 10_000
        assert files.count <= bound.get("files", 10**9)
    files.close()
    assert 0 < len(complete(tmp_path)) <= 4
    assert not Path(first.removesuffix(".partial")).exists()


def test_complete_files_are_compressed(tmp_path: Path) -> None:
    files = opened(tmp_path, compress=True)
    files.write([entry(COMMIT)])
    files.close()
    (file,) = tmp_path.iterdir()
    assert file.name.endswith(".pcapng.zst")
    assert shown([file]) == ["client tx.commit"]


def test_what_a_crash_left_is_completed_by_the_next(tmp_path: Path) -> None:
    crashed = opened(tmp_path)
    crashed.write([entry(COMMIT)])
    assert crashed._maintenance
    crashed._maintenance.finish()
    for descriptor in (crashed._descriptor, crashed._directory._lock):  # as the system does when the process is gone
        os.close(descriptor)
    files = opened(tmp_path)
    files.close()
    assert [shown([file]) for file in complete(tmp_path)] == [["client tx.commit"]]


class Disk:
    """A disk that takes so many bytes more, and then fails."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._write: Callable[[int, Any], int] = os.write
        self._writev: Callable[[int, Sequence[bytes]], int] = os.writev

    def write(self, descriptor: int, data: memoryview) -> int:
        return self._take(len(data), lambda most: self._write(descriptor, data[:most]))

    def writev(self, descriptor: int, pieces: Sequence[bytes]) -> int:
        whole = b"".join(pieces)
        return self._take(len(whole), lambda most: self._write(descriptor, whole[:most]))

    def _take(self, size: int, write: Callable[[int], int]) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done = write(min(size, self.room))
        self.room -= done
        return done


def test_a_full_disk_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: list[structlog.typing.EventDict]
) -> None:
    clock, disk = Clock(), Disk(10_000)
    monkeypatch.setattr(recording_files.os, "write", disk.write)
    monkeypatch.setattr(recording_files.os, "writev", disk.writev)
    files = opened(tmp_path, clock)
    for _ in range(20):
        files.write([entry(f"{COMMIT}, 1: body 1000")])
        files.tick()
    assert files.error == "No space left on device"
    assert files.lost
    assert [each["event"] for each in log if each["log_level"] == "error"] == ["recording interrupted"]
    before, lost = shown(complete(tmp_path)), files.lost
    assert len(before) + lost / 2 == 20
    disk.room = 10**9
    files.write([entry(COMMIT)])
    assert files.lost == lost + 1
    clock.now_ns += RETRY_NS
    files.tick()
    assert files.error == ""
    files.write([entry(COMMIT)])
    files.close()
    assert shown(complete(tmp_path)) == [*before, "client tx.commit"]


def test_a_directory_that_is_removed_is_made_again(tmp_path: Path) -> None:
    clock = Clock()
    directory = tmp_path / "captures"
    files = opened(directory, clock)
    files.write([entry(COMMIT)])
    for each in directory.iterdir():
        each.unlink()
    directory.rmdir()
    clock.now_ns += 2 * SECOND
    files.tick()
    assert files.error == "the file was deleted or moved"
    clock.now_ns += RETRY_NS
    files.tick()
    files.write([entry(COMMIT)])
    files.close()
    assert shown(complete(directory)) == ["client tx.commit"]


def test_a_directory_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match=r"file"):
        opened(tmp_path / "file")
    with pytest.raises(OSError, match=r"none"):
        opened(tmp_path / "none" / "captures")


def test_the_directory_is_not_listed_for_each_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = 0
    scandir = os.scandir

    def counted(path: Path) -> Any:
        nonlocal listed
        listed += Path(path) == tmp_path
        return scandir(path)

    monkeypatch.setattr(os, "scandir", counted)
    clock = Clock()
    files = opened(tmp_path, clock, file_size=65_536, files=3, compress=True)
    for _ in range(40):
        clock.now_ns += SECOND
        files.write([entry("1: body 70000")])
        files.tick()
    files.close()
    assert listed == 3  # to recover, and to see who records here, and what there is
    monkeypatch.undo()
    assert len(complete(tmp_path)) == 3


def test_a_clock_that_is_set_back_delays_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, timer, disk = Clock(), Clock(), Disk(10_000)
    files = RecordingFiles(config(tmp_path, file_age=60.0, files=2), clock, timer)
    files.open()
    for _ in range(4):
        files.write([entry(COMMIT)])
        clock.now_ns -= 3600 * SECOND
        timer.now_ns += 60 * SECOND
        files.tick()
    assert len(complete(tmp_path)) == 2
    newest = complete(tmp_path)[-1]
    monkeypatch.setattr(recording_files.os, "writev", disk.writev)
    disk.room = 0
    files.write([entry(COMMIT)])
    assert files.error
    disk.room = 10_000
    clock.now_ns -= 3600 * SECOND
    timer.now_ns += RETRY_NS
    files.tick()
    assert not files.error
    files.write([entry(COMMIT)])
    files.close()
    assert newest in complete(tmp_path)
    assert [file.name for file in complete(tmp_path)][-1] > newest.name


def test_what_was_written_is_synced_about_once_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    files = opened(tmp_path, clock)
    synced: list[int] = []
    monkeypatch.setattr(recording_files.os, "fdatasync", lambda descriptor: synced.append(descriptor))
    for _ in range(30):
        files.write([entry(COMMIT)])
        files.tick()
        clock.now_ns += SECOND // 10
    assert len(synced) == 2
    for _ in range(30):
        clock.now_ns += SECOND
        files.tick()
    assert len(synced) == 3
    files.close()


def test_a_disk_that_fails_to_sync_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    files = opened(tmp_path, clock)

    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    files.write([entry(COMMIT)])
    with monkeypatch.context() as patched:
        patched.setattr(recording_files.os, "fdatasync", fail)
        clock.now_ns += 2 * SECOND
        files.tick()
    assert files.error == "Input/output error"
    clock.now_ns += RETRY_NS
    files.tick()
    files.write([entry(COMMIT)])
    files.close()
    assert files.error == ""
    assert len(shown(complete(tmp_path))) == 2


def test_a_disk_that_stays_full_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: list[structlog.typing.EventDict]
) -> None:
    """There always is room for what a file begins with, but for no packet."""
    clock = Clock()
    files = opened(tmp_path, clock)

    def writev(descriptor: int, pieces: Sequence[bytes]) -> int:
        if len(pieces) > 1 or len(pieces[0]) > 1000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.write(descriptor, b"".join(pieces))

    with monkeypatch.context() as patched:
        patched.setattr(recording_files.os, "writev", writev)
        for _ in range(5):
            files.write([entry("1: body 3000")])
            clock.now_ns += RETRY_NS
            files.tick()
    assert files.lost == 5
    assert complete(tmp_path) == []
    files.write([entry(COMMIT)])
    files.close()
    assert [each["event"] for each in log] == ["recording interrupted", "recording goes on"]
    (file,) = complete(tmp_path)
    assert file.read_bytes().count(lost_comment(5, 5 * 3008).encode()) == 2  # once on each leg


def test_a_directory_that_is_moved_is_noticed(tmp_path: Path) -> None:
    clock = Clock()
    files = opened(tmp_path / "captures", clock)
    files.write([entry(COMMIT)])
    (tmp_path / "captures").rename(tmp_path / "moved")
    clock.now_ns += 2 * SECOND
    files.tick()
    assert files.error == "the file was deleted or moved"
    clock.now_ns += RETRY_NS
    files.tick()
    files.write([entry(COMMIT)])
    files.close()
    assert shown(complete(tmp_path / "captures")) == ["client tx.commit"]


def test_two_that_record_into_one_directory_keep_their_own_files(tmp_path: Path) -> None:
    clock = Clock()
    one = opened(tmp_path, clock, file_size=65_536, files=3)
    big = entry("1: body 70000")
    for _ in range(2):
        one.write([big])
    of_one = complete(tmp_path)
    assert len(of_one) == 2
    other = opened(tmp_path, clock, file_size=65_536, files=1, compress=True)
    for _ in range(10):
        clock.now_ns += SECOND
        other.write([big, entry(COMMIT)])
        other.tick()
    assert all(file.exists() for file in of_one)
    one.close()
    clock.now_ns += LOOK_NS
    other.tick()  # sees that nobody owns them any more
    other.write([entry(COMMIT)])
    other.close()
    assert len(complete(tmp_path)) == 1
    assert not any(file.exists() for file in of_one)

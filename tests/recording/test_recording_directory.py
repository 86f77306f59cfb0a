"""The directory of recordings: names, what is complete, and what a crash has left."""

import errno
import fcntl
import os
import re
from pathlib import Path
from struct import pack

import pytest
import structlog

from amqproxy.pipeline.chains import chains
from amqproxy.recording.maintenance_thread import compress
from amqproxy.recording.recording_directory import RecordingDirectory, completed, open_locked

NOW = 1_795_283_220_123_456_789


def block(kind: int, body: bytes) -> bytes:
    length = 12 + len(body)
    return pack("<2I", kind, length) + body + pack("<I", length)


def begun(directory: Path, data: bytes = b"", now_ns: int = NOW) -> Path:
    """A file that its writer has left when it crashed."""
    file, descriptor = RecordingDirectory(directory).create(now_ns)
    os.write(descriptor, data)
    os.close(descriptor)
    return file


def test_names_sort_by_time_and_never_collide(tmp_path: Path) -> None:
    directory = RecordingDirectory(tmp_path)
    names = []
    for add in (0, 0, 1_000, 10**9):
        file, descriptor = directory.create(NOW + add)
        os.close(descriptor)
        names.append(file.name)
    assert names == sorted(set(names))
    assert re.fullmatch(r"amqproxy-20261121T174700\.123456Z-\d{10}\.pcapng\.partial", names[0])


def test_a_crash_leaves_whole_blocks(tmp_path: Path) -> None:
    whole = block(6, b"abcd") + block(6, b"")
    for number, rest in enumerate((b"", block(6, b"1234")[:-1], b"\6\0", pack("<2I", 6, 3))):
        begun(tmp_path, whole + rest, NOW + number * 1000)
    recovered = RecordingDirectory(tmp_path).recover()
    assert [file.read_bytes() for file in recovered] == [whole] * 4
    assert all(file.suffix == ".pcapng" for file in recovered)
    assert list(RecordingDirectory(tmp_path).complete()) == recovered


def test_nothing_is_left_of_a_file_without_a_packet(tmp_path: Path) -> None:
    begun(tmp_path, b"\x0a\x0d")
    begun(tmp_path, block(0x0A0D0D0A, bytes(16)), NOW + 10**9)
    assert RecordingDirectory(tmp_path).recover() == []
    assert list(tmp_path.iterdir()) == []


def test_what_another_is_writing_is_left_alone(tmp_path: Path) -> None:
    file, descriptor = RecordingDirectory(tmp_path).create(NOW)
    os.write(descriptor, block(6, b"abcd")[:-1])
    assert RecordingDirectory(tmp_path).recover() == []
    assert file.exists()
    os.close(descriptor)


def test_compressing_leaves_one_file(tmp_path: Path) -> None:
    file = completed(begun(tmp_path, b"x" * 100_000))
    found = compress(file)
    assert [found] == list(tmp_path.iterdir())
    assert found.name == file.name + ".zst"
    assert 0 < found.stat().st_size < 1000


def test_what_was_half_compressed_is_begun_again(tmp_path: Path) -> None:
    file = completed(begun(tmp_path, block(6, b"abcd")))
    file.with_name(file.name + ".zst.partial").write_bytes(b"half")
    RecordingDirectory(tmp_path).recover()
    assert list(tmp_path.iterdir()) == [file]


NOT_OURS = (
    "mine.pcapng",
    "amqproxy-notes.txt",
    "amqproxy-notes.pcapng",
    "amqproxy-incident 4.pcapng.zst",
    "amqproxy-20261121T174700.123456Z-1.pcapng.bak",
    "my-amqproxy-20261121T174700.123456Z-1.pcapng",
    "amqproxy-20261121T174700.123456Z-1 (copy).pcapng",
    "amqproxy-notes.pcapng.partial",
    "amqproxy-notes.pcapng.zst.partial",
    os.fsdecode(b"amqproxy-\xff\n.pcapng"),
)


def test_what_others_put_there_is_not_ours(tmp_path: Path) -> None:
    for name in NOT_OURS:
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "amqproxy-20261121T174700.123456Z-1.pcapng").mkdir()
    (tmp_path / "amqproxy-20261121T174700.123457Z-1.pcapng").symlink_to(tmp_path / "mine.pcapng")
    directory = RecordingDirectory(tmp_path)
    assert directory.recover() == []
    assert directory.complete() == {}
    assert len(list(tmp_path.iterdir())) == len(NOT_OURS) + 2


def test_files_of_another_that_records_here_are_its_own(tmp_path: Path) -> None:
    theirs = [tmp_path / f"amqproxy-20261121T17470{number}.123456Z-4712.pcapng" for number in range(2)]
    left = tmp_path / "amqproxy-20261121T174700.123456Z-4713.pcapng"
    for file in (*theirs, left):
        file.write_bytes(b"12")
    (tmp_path / ".amqproxy-4713.lock").touch()
    descriptor = open_locked(tmp_path / ".amqproxy-4712.lock")
    directory = RecordingDirectory(tmp_path)
    directory.enter()
    assert directory.complete() == {left: 2}
    assert directory.has_others
    os.close(descriptor)  # it has crashed
    assert list(directory.complete()) == [theirs[0], left, theirs[1]]
    assert not directory.has_others
    directory.leave()
    assert sorted(tmp_path.iterdir()) == [theirs[0], left, theirs[1]]


def test_two_of_one_process_number_are_two_recorders(tmp_path: Path) -> None:
    """As in two containers that share the directory."""
    one, other = RecordingDirectory(tmp_path), RecordingDirectory(tmp_path)
    for each in (one, other):
        each.enter()
    file, descriptor = one.create(NOW)
    os.close(descriptor)
    finished = completed(file)
    assert other.complete() == {}
    file, descriptor = other.create(NOW)
    os.close(descriptor)
    one.leave()
    assert list(other.complete()) == [finished]
    assert len(chains([str(finished), str(file)])) == 2


def test_a_lock_that_somebody_has_deleted_is_made_again(tmp_path: Path) -> None:
    one, other = RecordingDirectory(tmp_path), RecordingDirectory(tmp_path)
    one.enter()
    (lock,) = tmp_path.iterdir()
    lock.unlink()
    one.enter()
    other.enter()
    assert len(list(tmp_path.iterdir())) == 2
    lock.unlink()
    lock.touch()
    one.leave()
    assert lock.exists()  # it is not ours


def test_a_name_is_never_used_again_and_sorts_behind_the_last(tmp_path: Path) -> None:
    directory = RecordingDirectory(tmp_path)
    names = []
    for now_ns, ending in ((NOW, ""), (NOW, ".zst"), (NOW - 3600 * 10**9, ""), (NOW + 10**9, "")):
        file, descriptor = directory.create(now_ns)
        os.close(descriptor)
        file = completed(file)
        names.append(file.rename(file.with_name(file.name + ending)).name)
    assert names == sorted(set(names))
    file, descriptor = RecordingDirectory(tmp_path).create(NOW)
    os.close(descriptor)
    assert completed(file).name.removesuffix(".zst") not in [name.removesuffix(".zst") for name in names]


def test_one_that_cannot_be_recovered_is_logged_and_left(
    tmp_path: Path, log: list[structlog.typing.EventDict], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(tmp_path, block(6, b"abcd"))
    begun(tmp_path, block(6, b"efgh"), NOW + 10**9)
    truncate = os.ftruncate

    def fail_once(descriptor: int, size: int) -> None:
        monkeypatch.setattr(os, "ftruncate", truncate)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "ftruncate", fail_once)
    assert len(RecordingDirectory(tmp_path).recover()) == 1
    assert [each["reason"] for each in log] == ["Input/output error"]


def test_a_file_that_is_taken_for_one_of_a_crash_before_it_is_locked_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock = fcntl.flock

    def recover_first(descriptor: int, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        assert RecordingDirectory(tmp_path).recover() == []
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", recover_first)
    file, descriptor = RecordingDirectory(tmp_path).create(NOW)
    os.close(descriptor)
    assert file.exists()

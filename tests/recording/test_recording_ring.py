"""The ring of recordings: the oldest are deleted, those that were there before first."""

from pathlib import Path

import structlog

from amqproxy.recording.recording_ring import DELETED_AT_ONCE, LOOKED_AT, RecordingRing


def made(directory: Path, *names: str, size: int = 10) -> list[Path]:
    files = [directory / name for name in names]
    for file in files:
        file.write_bytes(bytes(size))
    return files


def names(directory: Path) -> list[str]:
    return sorted(file.name for file in directory.iterdir())


def test_what_was_found_is_older_than_what_is_added(tmp_path: Path) -> None:
    ring = RecordingRing(3, None)
    for file in made(tmp_path, "n1", "n2"):
        ring.add(file, 10)
    ring.found(dict.fromkeys(made(tmp_path, "z1", "z2"), 10))  # by a clock that was set back since
    ring.keep(0, 0)
    assert names(tmp_path) == ["n1", "n2", "z2"]
    assert (ring.count, ring.size) == (3, 30)
    ring.keep(2, 0)
    assert names(tmp_path) == ["n2"]


def test_what_somebody_has_deleted_counts_no_more(tmp_path: Path) -> None:
    ring = RecordingRing(100, None)
    files = made(tmp_path, *(f"{number:03}" for number in range(100)))
    ring.found(dict.fromkeys(files, 10))
    for file in files[40:]:
        file.unlink()
    for _ in range(2 * 100 // LOOKED_AT):
        ring.keep(0, 0)
    assert (ring.count, ring.size) == (40, 400)
    assert len(names(tmp_path)) == 40


def test_what_was_found_again_counts_once(tmp_path: Path) -> None:
    ring = RecordingRing(None, 100)
    (file,) = made(tmp_path, "a.pcapng")
    ring.add(file, 10)
    ring.found({file: 10})
    ring.keep(0, 0)
    assert (ring.count, ring.size) == (1, 10)


def test_a_compressed_file_keeps_its_place(tmp_path: Path) -> None:
    ring = RecordingRing(None, 100)
    first, second = made(tmp_path, "a.pcapng", "b.pcapng")
    ring.add(first, 60)
    ring.add(second, 30)
    ring.compressed(first.rename(tmp_path / "a.pcapng.zst"), 20)
    ring.gone(first)  # compressed twice, as it was found, too
    ring.keep(1, 0)
    assert (ring.count, ring.size) == (2, 50)
    ring.keep(1, 60)
    assert names(tmp_path) == ["b.pcapng"]
    ring.gone(second)
    ring.keep(0, 0)
    assert (ring.count, ring.size) == (0, 0)


def test_one_that_is_compressed_once_it_was_deleted_is_the_oldest(tmp_path: Path) -> None:
    ring = RecordingRing(1, None)
    first, second = made(tmp_path, "a.pcapng", "b.pcapng")
    ring.add(first, 10)
    ring.add(second, 10)
    ring.keep(0, 0)
    (late,) = made(tmp_path, "a.pcapng.zst")
    ring.compressed(late, 10)
    ring.keep(0, 0)
    assert names(tmp_path) == ["b.pcapng"]


def test_what_cannot_be_deleted_keeps_nothing_else(tmp_path: Path, log: list[structlog.typing.EventDict]) -> None:
    ring = RecordingRing(1, None)
    (tmp_path / "a.pcapng").mkdir()
    (tmp_path / "b.pcapng").mkdir()
    ring.add(tmp_path / "a.pcapng", 10)
    ring.add(tmp_path / "b.pcapng", 10)
    for file in made(tmp_path, "c.pcapng", "d.pcapng"):
        ring.add(file, 10)
    ring.keep(0, 0)
    assert names(tmp_path) == ["a.pcapng", "b.pcapng", "d.pcapng"]
    assert [each["event"] for each in log] == ["recording not deleted"]


def test_many_are_deleted_in_turns(tmp_path: Path) -> None:
    ring = RecordingRing(1, None)
    for file in made(tmp_path, *(f"{number:03}" for number in range(2 * DELETED_AT_ONCE + 2))):
        ring.add(file, 10)
    assert [ring.keep(0, 0) for _ in range(3)] == [True, True, False]
    assert len(names(tmp_path)) == 1

"""Names that users give to recordings: safe ones, which never replace a file, and which no ring deletes."""

from pathlib import Path

import pytest

from amqproxy.recording.recording_directory import RecordingDirectory
from amqproxy.recording.recording_name import NameRefused, rename
from amqproxy.recording.recording_ring import RecordingRing

OWN = "amqproxy-20261121T174700.123456Z-4711.pcapng"


def recording(directory: Path, name: str = OWN) -> Path:
    path = directory / name
    path.write_bytes(b"recorded")
    return path


@pytest.mark.parametrize(
    ("before", "given", "name"),
    [
        (OWN, "the outage", "the outage.pcapng"),
        (OWN, " why.pcapng", "why.pcapng"),
        (f"{OWN}.zst", "Störung 3 (orders)", "Störung 3 (orders).pcapng.zst"),
        ("dump.pcap1", "first", "first.pcap1"),
        ("named.pcapng", "renamed again", "renamed again.pcapng"),
    ],
)
def test_suffixes_stay(before: str, given: str, name: str, tmp_path: Path) -> None:
    assert rename(recording(tmp_path, before), given) == tmp_path / name
    assert [each.name for each in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_bytes() == b"recorded"


@pytest.mark.parametrize(
    "given",
    ["../out", "/etc/x", "a/b", "..", ".hidden", "", "  ", "a\0b", "a\nb", "-rf", "x" * 121, "ß" * 120, OWN, "a\\b"],
)
def test_other_names_are_refused(given: str, tmp_path: Path) -> None:
    path = recording(tmp_path)
    with pytest.raises(NameRefused):
        rename(path, given)
    assert [*tmp_path.iterdir()] == [path]


def test_no_file_is_replaced_and_none_that_is_being_written_is_renamed(tmp_path: Path) -> None:
    path, other = recording(tmp_path), tmp_path / "taken.pcapng"
    other.write_bytes(b"another")
    with pytest.raises(NameRefused, match=r"there is a taken\.pcapng already"):
        rename(path, "taken")
    assert other.read_bytes() == b"another"
    with pytest.raises(NameRefused, match="still being written"):
        rename(recording(tmp_path, f"{OWN}.partial"), "mine")


def test_nothing_is_left_where_the_recording_is_gone(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        rename(tmp_path / OWN, "gone")
    assert [*tmp_path.iterdir()] == []


def test_a_ring_neither_counts_nor_deletes_a_named_recording(tmp_path: Path) -> None:
    """The oldest has a name: after it, the ring's bound of two files holds for those that it still counts."""
    paths = [recording(tmp_path, OWN.replace("1747", f"17{minute}")) for minute in (40, 41, 42)]
    ring = RecordingRing(2, None)
    ring.found(dict.fromkeys(paths, 8))
    named = rename(paths[0], "kept")
    assert not ring.keep(0, 0)
    assert (ring.count, ring.size) == (2, 16)
    newest = recording(tmp_path)
    ring.add(newest, 8)
    assert not ring.keep(0, 0)
    assert {*tmp_path.iterdir()} == {named, paths[2], newest}
    assert [*RecordingDirectory(tmp_path).complete()] == [paths[2], newest]

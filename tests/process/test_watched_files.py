"""Files that are replaced are noticed, once each time."""

from __future__ import annotations

from pathlib import Path

import pytest

from amqproxy.process.watched_files import WatchedFiles


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """A certificate and its key."""
    made = [tmp_path / "tls.crt", tmp_path / "tls.key"]
    for file in made:
        file.write_text("first")
    return made


@pytest.fixture
def watched(files: list[Path]) -> WatchedFiles:
    """After the first look."""
    found = WatchedFiles(lambda: map(str, files))
    assert not found.have_changed()
    return found


def test_what_stays_has_not_changed(watched: WatchedFiles) -> None:
    assert not watched.have_changed()


def test_a_change_is_noticed_once(watched: WatchedFiles, files: list[Path]) -> None:
    files[0].write_text("the second")
    assert watched.have_changed()
    assert not watched.have_changed()


def test_another_file_in_its_place_is_a_change(watched: WatchedFiles, files: list[Path], tmp_path: Path) -> None:
    """As Kubernetes replaces the files of a Secret, with another directory behind a link."""
    other = tmp_path / "other"
    other.write_text("first")
    other.replace(files[1])
    assert watched.have_changed()


def test_a_file_that_is_missing_is_waited_for(watched: WatchedFiles, files: list[Path]) -> None:
    files[1].unlink()
    assert not watched.have_changed()
    files[1].write_text("again")
    assert watched.have_changed()


def test_a_further_file_is_no_change(watched: WatchedFiles, files: list[Path], tmp_path: Path) -> None:
    files.append(tmp_path / "ca.crt")
    files[2].write_text("first")
    assert not watched.have_changed()
    files[2].write_text("the second")
    assert watched.have_changed()

"""Where the control socket lies, and what is left of it."""

import os
import socket
import stat
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from amqproxy.control.unix_socket import SocketUnavailable, opened


def test_it_is_its_owners_only_and_gone_in_the_end(tmp_path: Path) -> None:
    path = tmp_path / "control"
    before = os.umask(0)
    os.umask(before)
    with opened(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not path.exists()
    assert os.umask(before) == before


def test_a_socket_without_a_listener_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "control"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    with opened(path), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))


def test_a_socket_with_a_listener_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "control"
    with opened(path), pytest.raises(SocketUnavailable, match="another amqproxy listens there"), opened(path):
        pass
    assert not path.exists()


def test_what_took_its_place_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "control"
    with opened(path):
        path.unlink()
        path.write_text("mine")
    assert path.read_text() == "mine"


def test_a_place_that_is_taken_away_is_no_trouble(tmp_path: Path) -> None:
    with opened(tmp_path / "control"):
        (tmp_path / "control").unlink()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("file", "which is no socket"),
        ("file/control", "Not a directory"),
        ("missing/control", "No such file or directory"),
        ("x" * 108, "107 bytes at most"),
    ],
)
def test_a_place_that_cannot_be_had(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SocketUnavailable, match=text), opened(tmp_path / name):
        pass
    assert (tmp_path / "file").exists()


def test_a_socket_that_cannot_be_removed_is_no_trouble(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The directory may have become read-only: the end is as always, and the next start reports the error."""

    def refuse(path: Path, *, missing_ok: bool = False) -> None:
        raise OSError(30, "Read-only file system")

    path = tmp_path / "control.sock"
    monkeypatch.setattr(Path, "unlink", refuse)
    with capture_logs() as logged, opened(path):
        pass
    assert [entry["event"] for entry in logged if entry["log_level"] == "error"] == ["control socket not removed"]
    with pytest.raises(SocketUnavailable, match="Read-only file system"), opened(path):
        pass

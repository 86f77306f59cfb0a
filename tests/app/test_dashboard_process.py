"""The process of the dashboard, as another program in its place sees it."""

import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
import trio
from structlog.testing import capture_logs

from amqproxy.app import web_process
from amqproxy.app.dashboard_process import DashboardProcess, listening, private_socket_path, secrets_of
from amqproxy.configuration.config import ConfigError, DashboardConfig, LogConfig

NOTES = """
import pathlib, os, sys
notes = pathlib.Path(sys.argv[1])
line = sys.stdin.readline()
(notes / "new").write_text(f"{os.getpid()} {line}")
(notes / "new").rename(notes / str(len(list(notes.iterdir()))))
"""
STAYS = NOTES + "sys.stdin.read()"
ENDS = NOTES + "sys.exit(7)"
HANGS = NOTES + "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)"


class Kept:
    def __init__(self, notes: Path, listener: socket.socket) -> None:
        self.notes = notes
        self.port = listener.getsockname()[1]

    async def started(self, times: int = 1) -> tuple[int, dict[str, Any]]:
        """The process id, and what it was given, of the process that is started so many times."""
        with trio.fail_after(30):
            while not (self.notes / str(times)).exists():  # noqa: ASYNC110
                await trio.sleep(0.01)
        pid, _, line = (self.notes / str(times)).read_text().partition(" ")
        return int(pid), msgspec.json.decode(line)


@asynccontextmanager
async def kept(program: str, directory: Path, monkeypatch: pytest.MonkeyPatch, **config: Any) -> AsyncIterator[Kept]:
    """A process in place of the dashboard's, which is kept up while the block runs."""
    monkeypatch.setattr(DashboardProcess, "command", (sys.executable, "-c", program, str(directory)))
    wanted = DashboardConfig(listen="127.0.0.1:0", **config)
    with listening(wanted) as listener:
        assert listener is not None
        process = DashboardProcess(wanted, secrets_of(wanted), listener, directory / "control", LogConfig())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(process.run)
            yield Kept(directory, listener)
            nursery.cancel_scope.cancel()


async def test_what_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    directory = tmp_path / "notes"
    directory.mkdir()
    async with kept(STAYS, directory, monkeypatch, token_file=str(secret), read_only=True) as one:
        pid, task = await one.started()
        assert "s3cret" not in " ".join(psutil.Process(pid).cmdline())
        assert os.getsid(pid) != os.getsid(0)  # Ctrl-C is not for it
    assert task["settings"]["connect"] == [str(directory / "control")]
    assert (task["settings"]["token"], task["settings"]["read_only"]) == ("s3cret", True)
    assert (task["settings"]["host"], task["settings"]["port"]) == ("127.0.0.1", one.port)
    assert not psutil.pid_exists(pid)


async def test_it_is_started_again_the_later_the_sooner_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    sleep = trio.sleep

    async def noted(seconds: float) -> None:
        if seconds >= 1:
            pauses.append(seconds)
        await sleep(min(seconds, 0.01))

    monkeypatch.setattr(web_process.trio, "sleep", noted)
    with capture_logs() as log:
        async with kept(ENDS, tmp_path, monkeypatch) as one:
            await one.started(4)
    assert pauses[:3] == [1, 2, 4]
    assert [each["code"] for each in log if each["event"] == "dashboard ended"][:3] == [7, 7, 7]


async def test_one_that_hangs_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_process, "END_TIMEOUT", 0.1)
    async with kept(HANGS, tmp_path, monkeypatch) as one:
        pid, _ = await one.started()
    assert not psutil.pid_exists(pid)


async def test_what_cannot_be_started_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_process, "LEAST_PAUSE", 0.01)
    with capture_logs() as log:
        async with kept(STAYS, tmp_path, monkeypatch) as one:
            works = DashboardProcess.command
            monkeypatch.setattr(DashboardProcess, "command", ("/no/such/program",))
            with trio.fail_after(30):
                while not any(each["event"] == "dashboard failed" for each in log):  # noqa: ASYNC110
                    await trio.sleep(0.01)
            monkeypatch.setattr(DashboardProcess, "command", works)
            await one.started()


def test_its_url_is_logged() -> None:
    with capture_logs() as log, listening(DashboardConfig(listen="[::1]:0")) as listener:
        assert listener is not None
        port = listener.getsockname()[1]
    assert log == [{"event": "dashboard", "address": f"http://[::1]:{port}/", "log_level": "info"}]


def test_a_secret_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "of the environment")
    assert secrets_of(DashboardConfig(token_env="TOKEN")) == {"token": "of the environment"}
    assert secrets_of(DashboardConfig()) == {}
    (tmp_path / "empty").touch()
    for config, text in [
        (DashboardConfig(password_file=str(tmp_path / "none")), "cannot be read"),
        (DashboardConfig(password_file=str(tmp_path / "empty")), "the password is empty"),
        (DashboardConfig(token_env="NONE"), "no variable NONE"),
    ]:
        with pytest.raises(ConfigError, match=text):
            secrets_of(config)


def test_a_private_socket_is_for_its_owner_only() -> None:
    with private_socket_path() as path:
        assert path.parent.stat().st_mode & 0o777 == 0o700
    assert not path.parent.exists()

"""The process of the management API, as another program in its place sees it."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest
import trio
from structlog.testing import capture_logs

from amqproxy.app.management_process import ManagementProcess, listening
from amqproxy.configuration.config import LogConfig, ManagementConfig

NOTES = """
import pathlib, sys
file = pathlib.Path(sys.argv[1])
(file.parent / "new").write_text(sys.stdin.readline())
(file.parent / "new").rename(file)
sys.stdin.read()
"""


async def test_what_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "task"
    monkeypatch.setattr(ManagementProcess, "command", (sys.executable, "-c", NOTES, str(file)))
    wanted = ManagementConfig(listen="127.0.0.1:0")
    with capture_logs() as log, listening(wanted) as listener:
        port = listener.getsockname()[1]
        process = ManagementProcess(wanted, listener, tmp_path / "control", LogConfig())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(process.run)
            with trio.fail_after(30):
                while not file.exists():  # noqa: ASYNC110
                    await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
    assert log[0] == {"event": "management", "address": f"http://127.0.0.1:{port}/", "log_level": "info"}
    assert msgspec.json.decode(file.read_bytes())["settings"] == {
        "control": str(tmp_path / "control"),
        "host": "127.0.0.1",
        "port": port,
        "certificate": None,
        "key": None,
        "cors_origins": [],
        "cors_max_age": 1800.0,
        "content_security_policy": "script-src 'self'; object-src 'self'",
        "strict_transport_security": None,
        "frame_options": None,
        "metrics_without_login": False,
    }

"""What the interpreters under a sanitizer are started with; `make tsan` runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pump import sanitizer


def test_a_module_is_loaded_from_another_file(tmp_path: Path) -> None:
    file = tmp_path / "other.py"
    file.write_text("here = 'sanitized'")
    environment = os.environ | {"PYTHONPATH": str(sanitizer.FOLDER), "AMQPROXY_SANITIZED": f"colorsys={file}"}
    command = [sys.executable, "-c", "import colorsys; print(colorsys.here)"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "sanitized\n"


@pytest.mark.parametrize("kind", sanitizer.OPTIONS)
def test_what_a_sanitizer_is_given(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    built = {f"amqproxy.pump.{name}": Path(f"{name}.so") for name in ("pump", "journal")}
    monkeypatch.setattr(sanitizer, "build", lambda kind: built)
    monkeypatch.setattr(sanitizer, "_library", lambda name: f"/{name}")
    command = sanitizer.command(kind, Path("/reports/found"))
    assert command[0] == "env"
    assert command[-1] == sys.executable
    assert "AMQPROXY_SANITIZED=amqproxy.pump.pump=pump.so:amqproxy.pump.journal=journal.so" in command
    assert any(each.endswith("log_path=/reports/found") and f"exitcode={sanitizer.FOUND}" in each for each in command)
    assert (sanitizer.NOT_SHUFFLED[0] in command) is (kind == "thread")

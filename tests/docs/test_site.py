"""The documentation builds as a site without a warning: no dead link, no page that is left out of the menu."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

ROOT = Path(__file__).parent.parent.parent


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="needs amqproxy[docs]") if os.environ.get("CI") != "true" else None
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    configuration = (tmp_path / "reference" / "configuration" / "index.html").read_text()
    assert "session_memory" in configuration
    commands = (tmp_path / "reference" / "commands" / "index.html").read_text()
    assert "rules suggest" in commands
    assert "index.md" not in (tmp_path / "index.html").read_text()

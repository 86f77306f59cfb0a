"""The walks of docs/architecture name what there is."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
WALKS = sorted((ROOT / "docs" / "architecture").glob("*.md"))
PAGE = "\n".join(page.read_text() for page in (ROOT / "docs" / "architecture.md", *WALKS))
FILES = sorted(set(re.findall(r"`((?:amqproxy|docs|monitoring|tests)/[\w/-]+\.(?:py|md|yml))`", PAGE)))
FILES = [path for path in FILES if "NAME" not in path]  # of what is to be added
NAMES = [
    pytest.param(
        path, name, marks=[pytest.mark.once] if path.startswith("amqproxy/pipeline/") else []
    )  # it needs PySpark
    for path, names in re.findall(r"`(amqproxy/[\w/]+\.py)`(?:,| \()\s*((?:`[\w.]+`(?:, )?)+)", PAGE)
    for name in re.findall(r"`([\w.]+)`", names)
]


def test_there_are_walks() -> None:
    assert len(WALKS) == 6
    assert len(NAMES) > 40
    assert not re.search(r"(?<!`)``(?!`)", PAGE)  # each name has letters


@pytest.mark.parametrize("path", FILES)
def test_a_file_that_is_named_is_there(path: str) -> None:
    assert (ROOT / path).is_file()


@pytest.mark.parametrize(("path", "name"), NAMES)
def test_what_is_named_can_be_imported(path: str, name: str) -> None:
    thing: object = importlib.import_module(path.removesuffix(".py").replace("/", "."))
    for part in name.split("."):
        thing = getattr(thing, part)

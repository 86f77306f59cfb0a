"""AMQP 0-10 is a folder: how many files outside such folders name it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

PACKAGE = Path(__file__).parents[1] / "amqproxy"
NAMED = re.compile(r"amqp010|0-10|0\.10(?!\.\d)", re.IGNORECASE)  # 0.10.7 is a version of a client
MOST = 25
"""Files that may name 0-10: registries, conversion, and where users choose a protocol."""


def test_few_files_outside_the_folders_of_0_10_name_it() -> None:
    paths = [path for path in PACKAGE.rglob("*.py") if "amqp010" not in path.relative_to(PACKAGE).parts[:-1]]
    naming = [str(path.relative_to(PACKAGE)) for path in paths if NAMED.search(path.read_text())]
    assert len(naming) <= MOST, naming

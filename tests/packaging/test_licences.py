"""Licences: what REUSE reads says the same as what PyPI shows. CI lets `reuse lint` look at all files."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]


def test_every_file_has_the_licence_of_the_package() -> None:
    licence = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license"]
    annotations = tomllib.loads((ROOT / "REUSE.toml").read_text())["annotations"]
    assert annotations[0]["path"] == "**"
    assert {each["SPDX-License-Identifier"] for each in annotations} == {licence}
    assert [path.stem for path in (ROOT / "LICENSES").iterdir()] == [licence]
    assert (ROOT / "LICENSES" / f"{licence}.txt").read_text() == (ROOT / "LICENSE").read_text()


def test_what_has_a_licence_of_its_own_exists() -> None:
    annotations = tomllib.loads((ROOT / "REUSE.toml").read_text())["annotations"]
    assert [each["path"] for each in annotations[1:] if not (ROOT / each["path"]).is_file()] == []

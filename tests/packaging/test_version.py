"""The version of a release, wherever it is written down: the workflow of a release reads only some of these places."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from amqproxy import __version__
from tests.packaging.dockerfile import read

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
IMAGE = re.compile(r"amqproxy(?:-pipeline)?:(\d+\.\d+\.\d+)")
CHART = re.compile(r"^(?:version|appVersion): (\S+)$", re.MULTILINE)
TEXTS = ["README.md", "SECURITY.md", "compose.yaml", "helm/amqproxy/values.yaml"]


def test_it_is_the_same_everywhere() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == __version__
    assert read(ROOT / "Dockerfile").arguments["VERSION"] == __version__
    assert CHART.findall((ROOT / "helm/amqproxy/Chart.yaml").read_text()) == [__version__] * 2
    pages = [*map(ROOT.joinpath, TEXTS), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.yaml")]
    named = {page.name: IMAGE.findall(page.read_text()) for page in pages}
    assert {version for found in named.values() for version in found} == {__version__}
    assert {name for name, found in named.items() if found} >= {"README.md", "compose.yaml", "values.yaml"}

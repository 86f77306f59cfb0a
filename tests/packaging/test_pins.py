"""What is fetched by a name that may mean something else tomorrow: images without a digest, actions without a commit.

No registry of images and no GitHub can be asked where this is developed, so that the digests are not written down:
packaging/unpinned.txt lists what is not pinned, and nothing else may be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packaging.dockerfile import read

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
LIST = ROOT / "packaging" / "unpinned.txt"
IMAGE = re.compile(r"^\s*image:\s*(?:\$\{\w+:-)?([^\s$}{]+)", re.MULTILINE)
ACTION = re.compile(r"^\s*(?:- )?uses:\s*(\S+)", re.MULTILINE)
CONTAINER = re.compile(r"^\s*container:\s*(\S+)", re.MULTILINE)


def named() -> Iterator[str]:
    """Each image and action that a build, a workflow or the Compose project fetches."""
    dockerfile = read(ROOT / "Dockerfile")
    yield from (stage.base for stage in dockerfile.stages.values() if stage.base not in dockerfile.stages)
    yield from (each for each in IMAGE.findall((ROOT / "compose.yaml").read_text()) if "/amqproxy" not in each)
    for workflow in (ROOT / ".github" / "workflows").glob("*.yml"):
        text = workflow.read_text()
        yield from ACTION.findall(text)
        yield from CONTAINER.findall(text)


def test_what_is_not_pinned_is_listed() -> None:
    pinned = re.compile(r"@(sha256:[0-9a-f]{64}|[0-9a-f]{40})$")
    unpinned = {each for each in named() if not pinned.search(each)}
    lines = LIST.read_text().splitlines()
    listed = [line.split()[0] for line in lines if line and not line.startswith("#")]
    assert listed == sorted(listed)
    assert set(listed) == unpinned


def test_a_release_pins_the_base_of_its_images() -> None:
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    assert re.search(r"imagetools inspect .*Manifest\.Digest", workflow), "test_workflows runs it"
    assert "PYTHON=${{ steps.base.outputs.image }}" in workflow

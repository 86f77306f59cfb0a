"""The workflows of CI and releases: of the form that GitHub takes, and with no more rights than they need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.real.require import require_module

pytestmark = pytest.mark.once

WORKFLOWS = Path(__file__).parents[2] / ".github" / "workflows"
RELEASE: dict[str, Any] = yaml.safe_load((WORKFLOWS / "release.yml").read_text())
MAY_WRITE = {
    "pypi": {"id-token", "attestations"},
    "github": {"contents"},
    "image": {"packages"},
    "chart": {"packages"},
}
"""Jobs of a release that may write, and what."""


def test_github_takes_their_form() -> None:
    require_module("check_jsonschema", package="check-jsonschema")
    files = [str(path) for path in WORKFLOWS.glob("*.yml")]
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_only_what_publishes_may_write() -> None:
    assert RELEASE["permissions"] == {"contents": "read"}
    for name, job in RELEASE["jobs"].items():
        rights = job.get("permissions", {})
        assert {right for right, kind in rights.items() if kind == "write"} == MAY_WRITE.get(name, set()), name
        for step in job["steps"]:
            if str(step.get("uses", "")).startswith("actions/checkout"):
                assert step["with"]["persist-credentials"] is False, name


def test_pypi_trusts_the_workflow_and_no_stored_secret() -> None:
    job = RELEASE["jobs"]["pypi"]
    assert job["environment"]["name"] == "pypi"
    assert "secrets." not in (WORKFLOWS / "release.yml").read_text()
    publish = [step for step in job["steps"] if "gh-action-pypi-publish" in step.get("uses", "")]
    assert publish == [{"uses": "pypa/gh-action-pypi-publish@release/v1"}]


def needed(name: str) -> set[str]:
    """The jobs that end before this one begins."""
    needs = RELEASE["jobs"][name].get("needs", [])
    direct = {needs} if isinstance(needs, str) else set(needs)
    return direct | {each for job in direct for each in needed(job)}


@pytest.mark.parametrize("name", MAY_WRITE)
def test_nothing_is_published_before_the_tests_have_passed(name: str) -> None:
    assert {"version", "test"} <= needed(name)

"""The workflows of CI and releases: of the form that GitHub takes, and with no more rights than they need."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.real.require import require_module

pytestmark = pytest.mark.once

WORKFLOWS = Path(__file__).parents[2] / ".github" / "workflows"
RELEASE: dict[str, Any] = yaml.safe_load((WORKFLOWS / "release.yml").read_text())
NOT_FOR_USERS = {"bench", "chart", "demo", "dev", "docs", "fuzz", "lint", "pipeline-test", "test"}
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


def test_renovate_takes_its_config() -> None:
    require_module("check_jsonschema", package="check-jsonschema")
    config = WORKFLOWS.parent / "renovate.json"
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.renovate", config]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["python:3.13-slim-bookworm", f"python:3.13-slim-bookworm@sha256:{'0' * 64}"])
def test_the_base_of_images_has_one_digest(tmp_path: Path, name: str) -> None:
    """Of the registry, or the one that is written down."""
    (tmp_path / "Dockerfile").write_text(f"ARG PYTHON={name}\nFROM $PYTHON AS a\n")
    script = f"docker() {{ echo sha256:{'0' * 64}; }}\nGITHUB_OUTPUT=output\n" + step("image", "The base")["run"]
    done = run(script, tmp_path, "v1.2.0")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "output").read_text() == f"image=python:3.13-slim-bookworm@sha256:{'0' * 64}\n"


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
    assert [list(each) for each in publish] == [["uses"]], "it takes no password"


def needed(name: str) -> set[str]:
    """The jobs that end before this one begins."""
    needs = RELEASE["jobs"][name].get("needs", [])
    direct = {needs} if isinstance(needs, str) else set(needs)
    return direct | {each for job in direct for each in needed(job)}


@pytest.mark.parametrize("name", MAY_WRITE)
def test_nothing_is_published_before_the_tests_have_passed(name: str) -> None:
    assert {"version", "test"} <= needed(name)


def step(job: str, name: str) -> dict[str, Any]:
    (found,) = [each for each in RELEASE["jobs"][job]["steps"] if each.get("name", "").startswith(name)]
    return found  # type: ignore[no-any-return]


def run(script: str, directory: Path, tag: str) -> subprocess.CompletedProcess[str]:
    """What GitHub does with the script of a step; `gh` prints the notes that it is given."""
    (directory / "bin").mkdir()
    gh = directory / "bin" / "gh"
    gh.write_text('#!/bin/sh\nfor last; do :; done\ncat "$last"\n')
    gh.chmod(0o755)
    environment = {"PATH": f"{gh.parent}:{os.environ['PATH']}", "GITHUB_REF_NAME": tag, "GITHUB_REPOSITORY": "a/b"}
    return subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


CHANGES = """# Changelog

## [Unreleased]

- Later.

## [1.2.0] - 2026-12-01

### Added

- Now.

## [1.1.0] - 2026-11-01

- Before.
"""


def test_the_notes_of_a_release_are_its_part_of_the_changelog(tmp_path: Path) -> None:
    (tmp_path / "CHANGELOG.md").write_text(CHANGES)
    (tmp_path / "all").mkdir()
    done = run(step("github", "Its notes")["run"], tmp_path, "v1.2.0")
    assert (done.returncode, done.stdout.split()) == (0, ["###", "Added", "-", "Now."]), done.stderr


@pytest.mark.parametrize(("tag", "code"), [("v1.2.0", 0), ("v1.1.0", 1), ("v1.3.0", 1)])
def test_a_tag_is_the_version_that_is_written_down(tmp_path: Path, tag: str, code: int) -> None:
    (tmp_path / "CHANGELOG.md").write_text(CHANGES)
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.0"\n')
    chart = tmp_path / "helm" / "amqproxy" / "Chart.yaml"
    chart.parent.mkdir(parents=True)
    chart.write_text("version: 1.2.0\nappVersion: 1.2.0\n")
    assert run(step("version", "The tag")["run"], tmp_path, tag).returncode == code


def test_the_site_is_deployed_as_it_is_tested() -> None:
    """By a job that may write nothing but that, from what a build without rights has made."""
    workflow: dict[str, Any] = yaml.safe_load((WORKFLOWS / "docs.yml").read_text())
    build, deploy = workflow["jobs"]["build"], workflow["jobs"]["deploy"]
    assert workflow["permissions"] == {"contents": "read"}
    assert "permissions" not in build
    assert deploy["permissions"] == {"pages": "write", "id-token": "write"}
    assert [list(step) for step in deploy["steps"]] == [["id", "uses"]]
    assert [step["run"] for step in build["steps"] if "run" in step] == [
        'pip install --editable ".[docs]"',
        "mkdocs build --strict",
    ]
    menu = (WORKFLOWS.parents[1] / "mkdocs.yml").read_text()
    assert f"\nsite_dir: {build['steps'][-1]['with']['path']}\n" in menu


def test_what_is_audited_is_what_users_install() -> None:
    """All extras but those for work on the project; on GitHub, the audit also fails where PyPI does not answer."""
    script = (WORKFLOWS.parents[1] / "packaging" / "audit.sh").read_text()
    (extras,) = re.findall("^EXTRAS=(.+)$", script, re.MULTILINE)
    project = tomllib.loads((WORKFLOWS.parents[1] / "pyproject.toml").read_text())["project"]
    assert set(extras.split(",")) == set(project["optional-dependencies"]) - NOT_FOR_USERS
    assert "${GITHUB_ACTIONS:+--strict}" in script
    assert "packaging/audit.sh" in step("sdist", "What is known")["run"]


def test_wheels_and_images_have_bills_of_materials() -> None:
    project = tomllib.loads((WORKFLOWS.parents[1] / "pyproject.toml").read_text())
    assert project["tool"]["cibuildwheel"]["environment"] == {"AMQPROXY_COMPILE": "1", "AMQPROXY_SBOM": "1"}
    (build,) = [each for each in RELEASE["jobs"]["image"]["steps"] if "build-push" in each.get("uses", "")]
    assert (build["with"]["sbom"], build["with"]["provenance"]) == (True, "mode=max")
    (attest,) = [each for each in RELEASE["jobs"]["pypi"]["steps"] if "attest-sbom" in each.get("uses", "")]
    assert attest["with"]["sbom-path"].endswith(".cdx.json")


def test_what_an_owner_sets_up_is_written_down() -> None:
    """An environment that GitHub does not know is made without protection."""
    text = (WORKFLOWS.parents[1] / "packaging" / "RELEASE.md").read_text()
    for path in WORKFLOWS.glob("*.yml"):
        for job in yaml.safe_load(path.read_text())["jobs"].values():
            environment = job.get("environment")
            name = environment["name"] if isinstance(environment, dict) else environment
            assert name is None or f"`{name}`" in text, path.name

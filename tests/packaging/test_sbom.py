"""The bill of materials, of a small project; that of the real wheel is in test_wheel.py."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.real.require import require_module

pytestmark = pytest.mark.once

PROGRAM = Path(__file__).parents[2] / "packaging" / "sbom.py"
PYPROJECT = """
[project]
name = "small"
version = "1.2"
description = "A project."
license = "Apache-2.0"
dependencies = ["trio>=0.27", "PyYAML"]
[project.optional-dependencies]
shown = ["small[also]", "fastapi>=1; python_version > '3'", "trio[x]>1"]
also = ["lz4"]
test = ["pytest"]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    require_module("cyclonedx", package="cyclonedx-python-lib")
    (tmp_path / "packaging").mkdir()
    (tmp_path / "packaging" / "sbom.py").write_text(PROGRAM.read_text())
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    for directory in ("dashboard/static", "dashboard/ui"):
        (tmp_path / directory).mkdir(parents=True)
    bundled = [{"name": "@a/b", "version": "3.1.3", "license": "MIT", "text": "…"}]
    (tmp_path / "dashboard" / "static" / "licenses.json").write_text(json.dumps(bundled))
    integrity = "sha512-" + base64.b64encode(bytes(range(64))).decode()
    locked = {"packages": {"node_modules/@a/b": {"version": "3.1.3", "integrity": integrity}}}
    (tmp_path / "dashboard" / "ui" / "package-lock.json").write_text(json.dumps(locked))
    return tmp_path


def bill(project: Path, *options: str) -> dict[str, Any]:
    command = [sys.executable, "packaging/sbom.py", "bill.json", *options]
    subprocess.run(command, cwd=project, env=os.environ | {"SOURCE_DATE_EPOCH": "0"}, check=True)
    return json.loads((project / "bill.json").read_text())  # type: ignore[no-any-return]


def test_what_is_in_a_wheel_and_what_is_beside_it(project: Path) -> None:
    made = bill(project, "--plain")
    assert made["metadata"]["component"]["purl"] == "pkg:pypi/small@1.2"
    assert made["metadata"]["timestamp"] == "1970-01-01T00:00:00+00:00"
    parts = {part["purl"]: part for part in made["components"]}
    assert {purl: part["scope"] for purl, part in parts.items()} == {
        "pkg:npm/%40a/b@3.1.3": "required",
        "pkg:pypi/trio": "required",
        "pkg:pypi/pyyaml": "required",
        "pkg:pypi/fastapi": "optional",
        "pkg:pypi/lz4": "optional",
    }
    assert parts["pkg:npm/%40a/b@3.1.3"]["hashes"] == [{"alg": "SHA-512", "content": bytes(range(64)).hex()}]
    assert {"name": "cdx:python:package:required-extra", "value": "shown"} in parts["pkg:pypi/fastapi"]["properties"]


def test_the_same_wheel_has_the_same_bill(project: Path) -> None:
    assert bill(project) == bill(project)


def test_compiled_modules_have_a_part_of_cython(project: Path) -> None:
    assert any(part["name"] == "Cython" for part in bill(project)["components"])

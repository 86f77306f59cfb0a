"""What the audit of a release says, and what it fails for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.once

REPORT = Path(__file__).parents[2] / "packaging" / "audit_report.py"

WELL = {"name": "msgspec", "version": "0.20.0", "vulns": []}
SKIPPED = {"name": "annotated-doc", "skip_reason": "Dependency not found on PyPI: annotated-doc (0.0.4)"}
BAD = {
    "name": "requests",
    "version": "2.19.0",
    "vulns": [{"id": "PYSEC-2018-28", "fix_versions": ["2.20.0"], "aliases": ["CVE-2018-18074"], "description": "…"}],
}


def report(*packages: dict[str, Any], strict: bool = False) -> tuple[int, list[str]]:
    return report_of(json.dumps({"dependencies": packages, "fixes": []}), strict=strict)


def report_of(text: str, *, strict: bool = False) -> tuple[int, list[str]]:
    command = [sys.executable, REPORT, *(["--strict"] if strict else [])]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert not done.stderr
    return done.returncode, done.stdout.splitlines()


def test_nothing_is_known() -> None:
    assert report(WELL, strict=True) == (0, ["audit: 1 of 1 packages checked, 0 vulnerabilities"])


def test_a_vulnerability_is_named_and_fails_everywhere() -> None:
    code, lines = report(WELL, BAD)
    assert code == 1
    assert lines[0] == "VULNERABLE: requests 2.19.0: PYSEC-2018-28 CVE-2018-18074, fixed in 2.20.0"


def test_a_package_that_was_not_checked_is_named_and_fails_if_strict() -> None:
    for strict in (False, True):
        code, lines = report(WELL, SKIPPED, strict=strict)
        assert code == strict
        assert lines == [
            "NOT CHECKED: Dependency not found on PyPI: annotated-doc (0.0.4)",
            "audit: 1 of 2 packages checked, 0 vulnerabilities",
        ]


def test_without_an_answer_nothing_passes() -> None:
    assert report_of("") == (2, ["audit: pip-audit failed, nothing was checked"])

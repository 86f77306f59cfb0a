"""The specs of rabbit-hole, the Go client below Terraform's provider and Kubernetes' operator for RabbitMQ."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from pathlib import Path

from tests.real.class_path import BUILD
from tests.real.require import require

MODULE, VERSION = "github.com/michaelklishin/rabbit-hole/v3", "v3.5.0"

DIRECTORY = BUILD / "go-suite"

DEADLINE = 1800.0


def built() -> Path:
    """Return the directory of the module with its compiled tests, `suite`."""
    go = require("go", package="golang-go")
    place = DIRECTORY / VERSION
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    with (DIRECTORY / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "suite").exists():
            command = [go, "mod", "download", "-json", f"{MODULE}@{VERSION}"]
            done = subprocess.run(command, check=True, capture_output=True, timeout=DEADLINE)
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(json.loads(done.stdout)["Dir"], place, copy_function=shutil.copy)
            for each in (place, *place.rglob("*")):
                each.chmod(0o755 if each.is_dir() else 0o644)
            subprocess.run([go, "test", "-c", "-o", "suite", "."], cwd=place, check=True, timeout=DEADLINE)
    return place


def run(place: Path) -> dict[str, str]:
    """Run the specs; return what came of each, "pass", "skip" or the failure's text."""
    report = place / f"report-{os.getpid()}.json"
    command = ["./suite", f"-ginkgo.json-report={report}", "-ginkgo.no-color"]
    subprocess.run(command, cwd=place, capture_output=True, timeout=DEADLINE, check=False)
    try:
        [suite] = json.loads(report.read_text())
    finally:
        report.unlink(missing_ok=True)
    return {
        " ".join([*(each["ContainerHierarchyTexts"] or ()), each["LeafNodeText"]]): _result(each)
        for each in suite["SpecReports"]
        if each["LeafNodeType"] == "It"
    }


def _result(spec: dict[str, object]) -> str:
    match spec["State"]:
        case "passed":
            return "pass"
        case "skipped" | "pending":
            return "skip"
    failure = spec.get("Failure")
    return f"{spec['State']}: {failure.get('Message') if isinstance(failure, dict) else ''}"

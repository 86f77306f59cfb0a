"""The integration tests of two crates: RabbitMQ's command line `rabbitmqadmin`, and the client below it."""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import subprocess
from pathlib import Path

from tests.real.class_path import BUILD
from tests.real.require import require

CRATES = {"rabbitmqadmin": "2.35.0", "rabbitmq_http_client": "0.93.0"}

DIRECTORY = BUILD / "rust-suites"

MANIFEST = """
[package]
name = "suites"
version = "0.0.0"
edition = "2021"
[lib]
path = "lib.rs"
[dependencies]
{crate} = "={version}"
"""

RESULT = re.compile(r"^test (\S+) \.\.\. (ok|FAILED|ignored)", re.MULTILINE)

OPTIONS = ("--locked", "--all-features", "--test", "integration", "--target-dir", str(DIRECTORY / "target"))

DEADLINE = 1800.0


def built(crate: str) -> Path:
    """Return the directory of the crate with its tests compiled, which takes minutes the first time."""
    cargo = require("cargo", package="cargo")
    version = CRATES[crate]
    place = DIRECTORY / f"{crate}-{version}"
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    with (DIRECTORY / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            shutil.copytree(_source(cargo, crate, version), place)
        subprocess.run(
            [cargo, "test", *OPTIONS, "--no-run"],
            cwd=place,
            check=True,
            capture_output=True,
            timeout=DEADLINE,
        )
    return place


def _source(cargo: str, crate: str, version: str) -> Path:
    """Return where cargo unpacked the crate, fetched as a dependency of an empty package."""
    package = DIRECTORY / f"fetch-{crate}"
    package.mkdir(exist_ok=True)
    (package / "lib.rs").touch()
    (package / "Cargo.toml").write_text(MANIFEST.format(crate=crate, version=version))
    command = [cargo, "metadata", "--format-version", "1"]
    done = subprocess.run(command, cwd=package, check=True, capture_output=True, timeout=DEADLINE)
    [manifest] = [each["manifest_path"] for each in json.loads(done.stdout)["packages"] if each["name"] == crate]
    return Path(manifest).parent


def run(place: Path) -> dict[str, str]:
    """Run the integration tests of a built crate; return what came of each, "pass", "skip" or the failure's text."""
    command = ["cargo", "test", *OPTIONS, "--offline"]
    done = subprocess.run(
        [*command, "--", "--test-threads", "1"],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    return results(done.stdout)


def results(output: str) -> dict[str, str]:
    """Return the results in the output of Rust's test harness."""
    found = {name: {"ok": "pass", "ignored": "skip"}.get(word, "fail") for name, word in RESULT.findall(output)}
    texts = dict(re.findall(r"^---- (\S+) stdout ----\n(.*?)(?=^---- |^failures:$)", output, re.MULTILINE | re.DOTALL))
    return {name: texts.get(name, word).strip() if word == "fail" else word for name, word in found.items()}

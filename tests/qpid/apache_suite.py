"""Apache's own tests of a broker that speaks 0-10, which qpid-python brings; they need a Python 2.7."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.real.class_path import BUILD

PACKAGE = "qpid-python==1.36.0.post1 --hash=sha256:{digest}"
DIGEST = "1a341981723a7980163e6d33530f29133433742f6f9b5b12b46d5d239548afee"
STAND_INS = Path(__file__).parent / "stand_ins"
DIRECTORY = BUILD / "qpid"
DEADLINE = 170.0

MODULES = ("alternate_exchange", "broker", "dtx", "example", "exchange", "message", "query", "queue", "tx")
"""Those for what the specification has."""

EXTENSIONS = ("extensions", "lvq", "msg_groups", "new_api", "priority")
"""Those for extensions of Qpid. Without a password in the URL, most of them skip themselves, and count as passed.

`management`, `qmf_events`, `stats` and `threshold` are never run: they ask the broker by QMF,
which only Qpid's C++ broker has.
"""


def run_client(program: str, *arguments: object) -> str:
    """What a program of ours prints that uses qpid-python; it stands beside this file."""
    interpreter = python()
    environment = os.environ | {"PYTHONPATH": str(library(interpreter)), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTHONHOME", None)
    command = [interpreter, Path(__file__).parent / program, *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_suite(port: int, directory: Path, *modules: str) -> dict[str, str]:
    """What came of each test, "pass" or the failure's text; of all `MODULES` where none is named."""
    interpreter = python()
    installed = library(interpreter)
    report = directory / "report.xml"
    command = [interpreter, installed / "bin" / "qpid-python-test", "-b", f"guest/guest@127.0.0.1:{port}", "-x", report]
    for module in modules or MODULES:
        command += ["-m", f"qpid_tests.broker_0_10.{module}"]
    environment = os.environ | {"PYTHONPATH": f"{installed}:{STAND_INS}", "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTHONHOME", None)
    done = subprocess.run(
        command, env=environment, cwd=directory, capture_output=True, text=True, timeout=DEADLINE, check=False
    )
    assert report.exists(), done.stdout + done.stderr
    results = {}
    for case in ElementTree.parse(report).iter("testcase"):
        fault = next(iter(case), None)
        name = f"{case.get('classname', '').rpartition('broker_0_10.')[2]}.{case.get('name')}"
        results[name] = "pass" if fault is None else f"{fault.tag}: {fault.text}"
    return results


def python() -> str:
    """A Python 2.7; ends the test that asks where there is none."""
    installed = sorted(Path.home().glob(".pyenv/versions/2.7.*/bin/python2.7"))  # what pyenv has in PATH may not work
    found = str(installed[-1]) if installed else shutil.which("python2.7")
    if found is None:
        pytest.skip("Qpid's Python client needs a Python 2.7, which Debian no longer has: pyenv install 2.7.18")
    return found


def library(interpreter: str) -> Path:
    """Where qpid-python is installed, once."""
    library = DIRECTORY / "python"
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    with (DIRECTORY / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (library / "bin").exists():
            requirements = DIRECTORY / "requirements.txt"
            requirements.write_text(PACKAGE.format(digest=DIGEST))
            options = ["--quiet", "--no-deps", "--require-hashes", "--target", str(library)]
            subprocess.run([interpreter, "-m", "pip", "install", *options, "-r", str(requirements)], check=True)
    return library

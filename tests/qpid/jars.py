"""The class path of Qpid: its archives, fetched once and checked, and our programs, compiled."""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError

from tests.real.require import missing, require

HERE = Path(__file__).parent
DIRECTORY = HERE.parent.parent / "build" / "qpid"
CENTRAL = "https://repo.maven.apache.org/maven2/"
PATIENCE = 60.0
JDK = "openjdk-17-jdk-headless"


def class_path() -> str:
    """For `java -cp`; ends the test that asks where something is missing."""
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    with _alone():
        try:
            with ThreadPoolExecutor(8) as threads:
                archives = list(threads.map(_fetch, (HERE / "jars.txt").read_text().splitlines()))
        except URLError as error:
            missing("Qpid", f"it is fetched from {CENTRAL}: {error.reason}")
        return f"{_compile(archives)}:{_joined(archives)}"


@contextmanager
def _alone() -> Iterator[None]:
    """One of several processes of tests at a time."""
    with (DIRECTORY / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(line: str) -> Path:
    digest, place = line.split()
    path = DIRECTORY / place.rpartition("/")[2]
    if not path.exists() or hashlib.sha256(path.read_bytes()).hexdigest() != digest:
        with urllib.request.urlopen(CENTRAL + place, timeout=PATIENCE) as answer:
            data = answer.read()
        if hashlib.sha256(data).hexdigest() != digest:
            raise ValueError(f"{CENTRAL}{place} is not what jars.txt has pinned")
        path.write_bytes(data)
    return path


def _compile(archives: list[Path]) -> Path:
    sources = sorted((HERE / "java").glob("*.java"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    classes = DIRECTORY / digest
    if not (classes / "done").exists():
        options = ["-Xlint:all,-serial,-processing", "-Werror", "-encoding", "UTF-8", "-cp", _joined(archives)]
        subprocess.run([require("javac", package=JDK), *options, "-d", classes, *sources], check=True)
        (classes / "done").touch()
    return classes


def _joined(paths: list[Path]) -> str:
    return ":".join(map(str, paths))

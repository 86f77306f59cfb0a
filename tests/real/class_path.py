"""Class paths of Java programs: archives from Maven Central, fetched once and checked, and our sources, compiled.

A folder of tests names the archives in `jars.txt` and has the sources in `java`.
"""

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

BUILD = Path(__file__).parents[2] / "build"
CENTRAL = "https://repo.maven.apache.org/maven2/"
PATIENCE = 60.0
JDK = "openjdk-17-jdk-headless"


def class_path(folder: Path) -> str:
    """The argument for `java -cp`; ends the test that asks where something is missing."""
    directory = BUILD / folder.name
    directory.mkdir(parents=True, exist_ok=True)
    lines = (folder / "jars.txt").read_text().splitlines()
    with _alone(directory):
        try:
            with ThreadPoolExecutor(8) as threads:
                archives = list(threads.map(lambda line: _fetch(line, directory), lines))
        except URLError as error:
            missing(f"the class path of {folder.name}", f"it is fetched from {CENTRAL}: {error.reason}")
        return f"{_compile(folder / 'java', directory, archives)}:{_joined(archives)}"


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """One of several processes of tests at a time."""
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(line: str, directory: Path) -> Path:
    digest, place = line.split()
    path = directory / place.rpartition("/")[2]
    if not path.exists() or hashlib.sha256(path.read_bytes()).hexdigest() != digest:
        with urllib.request.urlopen(CENTRAL + place, timeout=PATIENCE) as answer:
            data = answer.read()
        if hashlib.sha256(data).hexdigest() != digest:
            raise ValueError(f"{CENTRAL}{place} is not what jars.txt has pinned")
        path.write_bytes(data)
    return path


def _compile(folder: Path, directory: Path, archives: list[Path]) -> Path:
    sources = sorted(folder.glob("*.java"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    classes = directory / digest
    if not (classes / "done").exists():
        options = ["-Xlint:all,-serial,-processing", "-Werror", "-encoding", "UTF-8", "-cp", _joined(archives)]
        subprocess.run([require("javac", package=JDK), *options, "-d", classes, *sources], check=True)
        (classes / "done").touch()
    return classes


def _joined(paths: list[Path]) -> str:
    return ":".join(map(str, paths))

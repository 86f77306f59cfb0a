"""Compiled modules with a sanitizer of GCC's in them, and the environment in which an interpreter uses them.

    python -m tests.pump.sanitizer thread        # or address, or undefined

runs tests/pump, and a proxy through a short soak, for as many MINUTES as the environment has; with `address` or
`undefined` also damaged captures through what decodes and shows them. The interpreter itself is as it is: of what it
does, the sanitizer sees its locks, its allocations and its copies. So what is checked is all that the C of these
modules does: with `thread` that of the pump, in its own threads and in that of Python; with the others also that of
frames, captures and meters.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from hatch_build import MISSING_MACROS

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "build" / "amqproxy"
PACKAGES = {
    "thread": ("pump", "taps/metering"),
    "address": ("pump", "amqp010", "capture", "taps/metering"),
    "undefined": ("pump", "amqp010", "capture", "taps/metering"),
}
FOLDER = Path(__file__).parent / "sanitized"
"""Whose `sitecustomize` has every interpreter load what was built."""

FOUND = 66
"""What a program ends with in which something was found."""

LIBRARIES = {"thread": ("libtsan.so",), "address": ("libasan.so", "libstdc++.so.6"), "undefined": ("libubsan.so",)}
OPTIONS = {
    "thread": f"TSAN_OPTIONS=exitcode={FOUND} history_size=7 report_thread_leaks=0",  # daemons end with the process
    # The interpreter keeps much until it ends, which is no leak of the pump's.
    "address": f"ASAN_OPTIONS=exitcode={FOUND} detect_leaks=0 detect_stack_use_after_return=1",
    "undefined": f"UBSAN_OPTIONS=exitcode={FOUND} halt_on_error=1 print_stacktrace=1",
}
TESTS = (
    "tests/pump",
    "tests/proxy/session/test_ownership.py",
    "tests/proxy/amqp010/test_ownership.py",
)
NOT_SHUFFLED = ["setarch", "-R"]
"""Before a command: with addresses as ThreadSanitizer expects them."""


def build(kind: str) -> dict[str, Path]:
    """Compile with `-fsanitize` of a kind what is not up to date: the file of each of the modules."""
    sources = [source for package in PACKAGES[kind] for source in sorted((SOURCES / package).rglob("*.c"))]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        built = pool.map(partial(_build, kind), sources)
        names = [".".join(("amqproxy", *source.relative_to(SOURCES).with_suffix("").parts)) for source in sources]
        return dict(zip(names, built, strict=True))


def _build(kind: str, source: Path) -> Path:
    place = source.relative_to(SOURCES).with_suffix(EXTENSION_SUFFIXES[0])
    built = ROOT / "build" / "sanitized" / kind / place
    if built.is_file() and built.stat().st_mtime > source.stat().st_mtime:
        return built
    built.parent.mkdir(parents=True, exist_ok=True)
    flags = ["-shared", "-fPIC", "-O1", "-g", "-fno-omit-frame-pointer", f"-fsanitize={kind}"]
    if kind == "undefined":
        flags.append("-fno-sanitize-recover=all")
    flags += [f"-D{name}={value}" for name, value in MISSING_MACROS]
    command = [_compiler(), *flags, f"-I{sysconfig.get_path('include')}", "-o", str(built), str(source)]
    subprocess.run(command, check=True)
    return built


def environment(kind: str, report: Path) -> dict[str, str]:
    """What to add to an interpreter's environment, so that its pump is the one that `build` has made.

    What is found is written to files whose names begin with `report`.
    """
    name, _, options = OPTIONS[kind].partition("=")
    return {
        "LD_PRELOAD": " ".join(_library(each) for each in LIBRARIES[kind]),
        name: f"{options} log_path={report}",
        "PYTHONPATH": str(FOLDER),
        "AMQPROXY_PURE": "0",
        "AMQPROXY_SANITIZED": os.pathsep.join(f"{module}={file}" for module, file in build(kind).items()),
        "PYTHONMALLOC": "malloc",
    }


def _compiler() -> str:
    return shlex.split(os.environ.get("CC") or "gcc")[0]


def _library(name: str) -> str:
    found = subprocess.run([_compiler(), f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return str(Path(found.stdout.strip()).resolve())


def command(kind: str, report: Path) -> list[str]:
    """Before an interpreter's arguments: what runs it so."""
    settings = [f"{name}={value}" for name, value in environment(kind, report).items()]
    return ["env", *settings, *(NOT_SHUFFLED if kind == "thread" else []), sys.executable]


def main(kind: str) -> int:
    """Run what uses pumps with a sanitizer; print what it has found."""
    report = ROOT / "build" / "sanitized" / kind / "found"
    build(kind)
    for old in report.parent.glob("found.*"):
        old.unlink()
    tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "timeout=900", *TESTS]
    minutes = os.environ.get("MINUTES", "1")
    soak = ["-m", "tests.pump.soak", "--minutes", minutes, "--pause", "0.02"]
    damage = ["-m", "tests.fuzz.damaged_captures", "--seconds", str(60 * float(minutes))]
    sanitized = command(kind, report)
    surroundings = os.environ | {"AMQPROXY_COMMAND": shlex.join([*sanitized, "-m", "amqproxy"])}
    runs = [[*sanitized, *tests], [sys.executable, *soak]]
    if kind != "thread":
        runs.append([*sanitized, *damage])
    failed = False
    for run in runs:
        print(f"{kind} sanitizer: {shlex.join(run)}", flush=True)
        failed |= subprocess.run(run, cwd=ROOT, env=surroundings, check=False).returncode != 0
    found = sorted(report.parent.glob("found.*"))
    for each in found:
        print(each.read_text(errors="replace"))
    print(f"{kind} sanitizer: {f'{len(found)} reports' if found else 'nothing'} found")
    return 1 if failed or found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "thread"))

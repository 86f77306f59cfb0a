"""A virtual environment in which nothing can be compiled: its own programs are all there are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

KEPT = ("LANG", "LC_")
"""How variables begin that say how texts are encoded."""

PROGRAMS = ("cc", "gcc", "clang", "c++", "node", "npm", "make", "sh")
"""Some that must not be found."""


class CleanEnvironment:
    """Made in `directory`. Packages come from the directory `packages` alone, as wheels, and from no network."""

    def __init__(self, directory: Path, packages: Path) -> None:
        self.directory = directory
        self.programs = directory / "venv" / "bin"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory / "venv"], check=True)
        kept = {name: value for name, value in os.environ.items() if name.startswith(KEPT)}
        self.environment = kept | {
            "PATH": str(self.programs),
            "HOME": str(directory),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(packages),
            "PIP_NO_COMPILE": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "CC": "/nowhere/cc",
        }

    def run(self, *command: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment in its directory; its whole output is `stdout`."""
        return self._run(self.programs / command[0], *command[1:], check=check)

    def install(self, *what: str | Path) -> str:
        """What pip, which is not part of the environment, prints while it installs there."""
        return self._run(sys.executable, "-m", "pip", "--python", self.programs / "python", "install", *what).stdout

    def _run(self, *command: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command,
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert not check or done.returncode == 0, done.stdout
        return done

    def found(self) -> list[str]:
        """Those of PROGRAMS that are within reach."""
        asked = self.run("python", "-c", f"import shutil; print(*[each for each in {PROGRAMS} if shutil.which(each)])")
        return asked.stdout.split()

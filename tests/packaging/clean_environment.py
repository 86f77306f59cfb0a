"""A virtual environment in which nothing can be compiled: its own programs are all there are."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

KEPT = ("LANG", "LC_")
"""How variables begin that say how texts are encoded."""

PROGRAMS = ("cc", "gcc", "clang", "c++", "node", "npm", "make", "sh")
"""Some that must not be found."""


class CleanEnvironment:
    """Made in `directory`, by this Python or the one of the path `python`.

    Packages come from the directory `packages` alone, as wheels, and from no network; without it, from where pip
    finds them on this machine.
    """

    def __init__(self, directory: Path, packages: Path | None, python: Path | None = None) -> None:
        self.directory = directory
        self.programs = directory / "venv" / "bin"
        subprocess.run([python or sys.executable, "-m", "venv", "--without-pip", directory / "venv"], check=True)
        kept = {name: value for name, value in os.environ.items() if name.startswith(KEPT)}
        self.environment = kept | {"PATH": str(self.programs), "HOME": str(directory), "CC": "/nowhere/cc"}
        pip = {"PIP_NO_COMPILE": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        if packages is not None:
            pip |= self.environment | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(packages)}
        self._installing = pip if packages is not None else os.environ | pip

    def run(self, *command: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment in its directory; its whole output is `stdout`."""
        return self._run(self.programs / command[0], *command[1:], check=check, environment=self.environment)

    def install(self, *what: str | Path) -> str:
        """What pip, which is not part of the environment, prints while it installs there."""
        pip = (sys.executable, "-m", "pip", "--python", self.programs / "python")
        return self._run(*pip, "install", *what, environment=self._installing).stdout

    def _run(
        self, *command: str | Path, environment: Mapping[str, str], check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command,
            cwd=self.directory,
            env=environment,
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

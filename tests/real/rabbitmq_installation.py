"""The installations of RabbitMQ that tests can start: that of this system, and those of later Debian releases."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.real.require import missing, require

SYSTEM_SCRIPTS = Path("/usr/lib/rabbitmq/bin")
"""Debian's unwrapped scripts. The wrappers in PATH insist on being root and on becoming the user rabbitmq."""

SUITES = {"4.0": "trixie", "4.3": "sid"}
"""The Debian release with each minor version that a stable Debian 12 does not have."""

UNPACK = Path(__file__).parents[1] / "rabbitmq_release.sh"
MOVED = 3
"""Exit code of `UNPACK` when the Debian release has another version by now."""


@dataclass(frozen=True)
class Installation:
    """The scripts and programs of one version; `root` is where it was unpacked, if the system does not have it."""

    root: Path | None = None

    @property
    def version(self) -> str:
        """The version of RabbitMQ that was met, such as 4.3.6."""
        assert self.root is not None
        return (self.root / "version").read_text().strip()

    def script(self, name: str) -> str:
        """The path of one of RabbitMQ's scripts."""
        unwrapped = (self.root / "usr/lib/rabbitmq/bin" if self.root else SYSTEM_SCRIPTS) / name
        return str(unwrapped) if unwrapped.exists() else require(name, package="rabbitmq-server")

    @property
    def epmd(self) -> str:
        """The path of Erlang's port mapper."""
        if self.root is None:
            return require("epmd", package="erlang-base")
        (program,) = self.root.glob("usr/lib/erlang/erts-*/bin/epmd")
        return str(program)

    @property
    def plugins(self) -> str:
        """The directory of plugins, which RabbitMQ 4.0 does not find by itself."""
        servers = (self.root or Path("/")).glob("usr/lib/rabbitmq/lib/rabbitmq_server-*/plugins")
        return os.pathsep.join(map(str, servers))

    @property
    def path(self) -> str:
        """PATH for the scripts, which look for Erlang there."""
        usual = os.environ.get("PATH", os.defpath)
        return usual if self.root is None else f"{self.root}/usr/lib/erlang/bin{os.pathsep}{usual}"


SYSTEM = Installation()


@cache
def installation(minor: str) -> Installation:
    """The installation of a minor version, unpacked if the cache does not have it; skip the test where that fails."""
    return SYSTEM if minor not in SUITES else unpacked(SUITES[minor], minor)


def chosen() -> Installation:
    """The installation for tests that ask for no version: that of `RABBITMQ`, such as 4.3, or the system's."""
    return installation(os.environ.get("RABBITMQ", ""))


def unpacked(suite: str, minor: str) -> Installation:
    """RabbitMQ from a Debian release; without `minor` the newest that it has."""
    done = subprocess.run([UNPACK, suite, minor], capture_output=True, text=True, check=False)
    if done.returncode == MOVED:
        # Not a failure, even in CI: `make newest-rabbitmq` is the one that fails when Debian's unstable moves on.
        pytest.skip(f"{done.stderr.strip()}, and no {minor} any more: make newest-rabbitmq shows what differs")
    if done.returncode:
        missing(f"RabbitMQ {minor}", done.stderr.strip())
    return Installation(Path(done.stdout.strip()))

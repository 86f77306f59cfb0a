"""Wheel and sdist in a new Debian that has Python and nothing else: by pip, by pip from the sdist, and by pipx."""

from __future__ import annotations

import shutil
from pathlib import Path

from amqproxy.compiled._pure import SLOW
from tests.packaging.fresh_debian import FreshDebian
from tests.packaging.stopwatch import Stopwatch

EXTRAS = "analytics,captures,otel,pytest,top"
"""Those for users, besides that of the dashboard; the pipeline's is in its image."""

MODULES = (
    "amqproxy.export.parquet, amqproxy.telemetry.span_export, amqproxy.testing.plugin, amqproxy.top.app, duckdb, lz4"
)
"""What needs them."""


def run(base: FreshDebian, wheel: Path, sdist: Path, directory: Path) -> None:
    """See all of it; an AssertionError or Failed says what is wrong. The wheel is for Debian's own Python."""
    watch = Stopwatch("wheel")
    debian = base.copied(directory / "wheel")
    debian.install("python3", "python3-venv")
    debian.run("! command -v cc gcc clang node npm make")
    for file in (wheel, sdist):
        shutil.copy(file, debian.root / "root" / file.name)
    watch.say("a Debian with Python, without a compiler, Node.js and make")

    debian.run(
        f"python3 -m venv /wheel && /wheel/bin/pip install -q --only-binary :all: '/root/{wheel.name}[dashboard]'"
    )
    version = debian.run("/wheel/bin/amqproxy version").strip()
    assert version.endswith("(compiled)"), version
    watch.say(f"pip install {wheel.name}[dashboard]: {version}")

    (debian.root / "root/otel.toml").write_text("[opentelemetry]\n")
    check = "/wheel/bin/amqproxy config check /root/otel.toml"
    assert "amqproxy[otel]" in debian.run(f"! {check} 2>&1")
    debian.run(f"/wheel/bin/pip install -q --only-binary :all: '/root/{wheel.name}[{EXTRAS}]'")
    debian.run(f"{check} && /wheel/bin/python -c 'import {MODULES}'")
    watch.say(f"further extras: {EXTRAS}")

    said = debian.run(f"python3 -m venv /sdist && /sdist/bin/pip install -v /root/{sdist.name}")
    assert "amqproxy: built without compiled modules (there is no C compiler: " in said
    version, hint = debian.run("/sdist/bin/amqproxy version").splitlines()
    assert version.endswith("(plain)"), version
    assert hint == f"The plain form is {SLOW}.", hint
    watch.say(f"pip install {sdist.name}: {version}")

    debian.run("python3 -m venv /pipx && /pipx/bin/pip install -q pipx")
    watch.say("pip install pipx")
    version = debian.run(f"/pipx/bin/pipx run --spec /root/{wheel.name} amqproxy version").strip().splitlines()[-1]
    assert version.endswith("(compiled)"), version
    watch.say(f"pipx run --spec {wheel.name} amqproxy version: {version}")

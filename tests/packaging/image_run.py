"""The stages of the Dockerfile, built in new Debians as a container engine would do it, and started likewise.

There is no registry of images here: python:VERSION-slim is a Debian with this machine's Python of that version in
/usr/local.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

from tests.packaging.dockerfile import Dockerfile, Stage, assignments, read, substituted
from tests.packaging.fresh_debian import FreshDebian
from tests.packaging.stopwatch import Stopwatch

ROOT = Path(__file__).parents[2]
LIBRARIES = ("libbz2-1.0", "libexpat1", "libffi8", "liblzma5", "libncursesw6", "libreadline8", "libsqlite3-0")
LIBRARIES += ("libssl3", "libuuid1", "zlib1g")
"""Of Debian, which Python's own modules need."""

PYTHON_IMAGE = re.compile(r"python:(\d+\.\d+)-slim-(\w+)")

SERVES = """
import socket
with socket.create_connection(("127.0.0.1", 5672), 10) as client:
    client.sendall(b"AMQP\\0\\0\\x09\\x01")
    assert client.recv(1) == b"\\x01"
"""


class Images:
    """What has been built, by stage. With `plain`, what an image would compile is left as it is, which is faster."""

    def __init__(self, base: FreshDebian, directory: Path, plain: bool = False) -> None:
        self._base = base
        self._directory = directory
        self._plain = plain
        self.dockerfile: Dockerfile = read(ROOT / "Dockerfile")
        self._built: dict[str, FreshDebian] = {}
        self._watch = Stopwatch("image")

    def built(self, name: str) -> FreshDebian:
        """The root of a stage or image."""
        if name not in self._built:
            self._built[name] = (
                self._build(self.dockerfile.stages[name]) if name in self.dockerfile.stages else self._python(name)
            )
        return self._built[name]

    def _python(self, image: str) -> FreshDebian:
        found = PYTHON_IMAGE.match(image)
        assert found, f"{image} is none that can be stood in for"
        version, prefix = f"{sys.version_info.major}.{sys.version_info.minor}", sys.base_prefix
        assert found[1] == version, f"to stand in for {image}, this has to run on Python {found[1]}; it is {version}"
        debian = self._base.copied(self._directory / "image-python")
        debian.install(*LIBRARIES)
        for part in ("bin", "lib", "include"):
            shutil.copytree(f"{prefix}/{part}", debian.root / "usr/local" / part, symlinks=True, dirs_exist_ok=True)
        debian.run(f"""
            grep -lI '^#!{prefix}/' /usr/local/bin/* | xargs -r sed -i '1s|{prefix}|/usr/local|'
            ldconfig
            ln -sf python{found[1]} /usr/local/bin/python
            python -c 'import ssl, sqlite3, ctypes, lzma; import sys; assert sys.prefix == "/usr/local", sys.prefix'
        """)
        self._watch.say(f"in place of {image}: Debian with Python of this machine")
        return debian

    def _build(self, stage: Stage) -> FreshDebian:
        debian = self.built(stage.base).copied(self._directory / f"image-{stage.name}")
        environment = dict(debian.environment)
        place, user = "/", ""
        for instruction, value in self._inherited(stage):
            if instruction == "ENV":
                environment |= assignments(value, environment)
            elif instruction == "WORKDIR":
                place = value
                debian.run(f"mkdir -p {shlex.quote(place)}")
        for instruction, value in stage.steps:
            if instruction in ("ENV", "ARG"):
                environment |= assignments(value, environment)
                if self._plain and "AMQPROXY_COMPILE" in environment:
                    environment["AMQPROXY_COMPILE"] = "0"
                debian.environment = environment
            elif instruction == "WORKDIR":
                place = value
                debian.run(f"mkdir -p {shlex.quote(place)}")
            elif instruction == "USER":
                user = value
            elif instruction == "COPY":
                self._copy(debian, place, substituted(value, environment))
            elif instruction == "RUN":
                assert not user, "what is built by a user who is not root"
                debian.run(f"cd {shlex.quote(place)}\n{value}")
                self._watch.say(f"{stage.name}: RUN {' '.join(value.split())[:70]} …")
            elif instruction not in ("LABEL", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"):
                raise AssertionError(f"{instruction} is not understood")
        debian.environment = environment
        return debian

    def _inherited(self, stage: Stage) -> list[tuple[str, str]]:
        """What counts of the steps of stages that this one begins with."""
        below = self.dockerfile.stages.get(stage.base)
        return [] if below is None else [*self._inherited(below), *below.steps]

    def _copy(self, debian: FreshDebian, place: str, text: str) -> None:
        *options, source, target = shlex.split(text)
        to = debian.root / str(Path(place, target)).lstrip("/")
        if options:
            (stage,) = [option.removeprefix("--from=") for option in options]
            subprocess.run(["cp", "-a", "-T", self.built(stage).root / source.lstrip("/"), to], check=True)
            return
        for path in context():
            if source == "." or str(path) == source:
                copy = to / path if source == "." else to
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / path, copy)


def context() -> list[Path]:
    """The files that a build sees: those of git, without what .dockerignore leaves out."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    return [
        Path(name) for name in names.split("\0") if name and (ROOT / name).is_file() and is_sent(Path(name), patterns)
    ]


def is_sent(path: Path, patterns: Sequence[str]) -> bool:
    """Whether a build sees the file: by the last pattern of .dockerignore that matches it, or a directory it is in."""
    sent = True
    for pattern in patterns:
        text = pattern.removeprefix("!")
        for each in (path, *path.parents[:-1]):
            name = each.name if text.startswith("**/") else str(each)
            if fnmatch(name, text.removeprefix("**/")):
                sent = pattern.startswith("!")
    return sent


def run(base: FreshDebian, directory: Path, plain: bool = False) -> None:
    """Build all stages, and start both images; an AssertionError or Failed says what is wrong."""
    images = Images(base, directory, plain)
    see_proxy(images)
    see_pipeline(images)


def see_proxy(images: Images) -> None:
    stage, debian = images.dockerfile.stages["proxy"], images.built("proxy")
    watch = Stopwatch("proxy")
    user = stage.last("USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user), "a number that is not root's, so that Kubernetes sees it"
    size = sum(
        each.stat().st_size for each in (debian.root / "opt").rglob("*") if each.is_file() and not each.is_symlink()
    )
    entry, default = stage.words("ENTRYPOINT"), stage.words("CMD")
    contained = partial(debian.run, has_network=False, user=user, is_read_only=True)
    assert "Usage: amqproxy" in contained(shlex.join([*entry, *default]))
    version = contained("amqproxy version").strip()
    contained("! command -v cc gcc node npm make")
    contained("! touch /opt/amqproxy/x /var/lib/amqproxy/x 2>/dev/null")
    watch.say(f"{version}, {size / 1e6:.0f} MB in /opt, user {user}, root file system read-only")

    serve = [*entry, "run", "--listen", "0.0.0.0:5672", "--upstream", "broker", "--metrics", "0.0.0.0:9419"]
    serve += ["--dashboard", "127.0.0.1:8672"]
    check = shlex.join(stage.health_check)
    contained(
        f"""
        ! {check} 2>/dev/null
        {shlex.join(serve)} &
        tries=0
        until {check} 2>/dev/null; do kill -0 $!; tries=$((tries + 1)); [ $tries -lt 600 ]; sleep 0.1; done
        python -c '{SERVES}'
        kill -TERM $!
        wait $!
        """,
    )
    watch.say("the health check fails before it serves, and passes then; SIGTERM ends it with 0")
    bill = json.loads((debian.root / "opt/amqproxy/share/sbom/amqproxy.cdx.json").read_text())
    named = {part["name"].lower() for part in bill["components"]}
    assert {"trio", "fastapi", "msgspec"} <= named
    watch.say(f"its bill of materials names {len(named)} Python packages")


def see_pipeline(images: Images) -> None:
    stage, debian = images.dockerfile.stages["pipeline"], images.built("pipeline")
    watch = Stopwatch("pipeline")
    user = stage.last("USER")
    entry, default = stage.words("ENTRYPOINT"), stage.words("CMD")
    assert "amqproxy pipeline" in debian.run(shlex.join([*entry, *default]), has_network=False, user=user)
    watch.say(f"its command, as user {user}")
    capture = ROOT / "captures" / "confirms.pcapng"
    assert capture.is_file()
    (debian.root / "captures").mkdir(exist_ok=True)
    shutil.copy(capture, debian.root / "captures")
    work = ["amqproxy", "pipeline", "run", "/captures", "--tables", "/home/spark/tables"]
    debian.run(f"cd /home/spark; {shlex.join([*entry, *work])}", has_network=False, user=user)
    assert list((debian.root / "home/spark/tables").rglob("*.parquet"))
    watch.say("a capture became tables on Spark")

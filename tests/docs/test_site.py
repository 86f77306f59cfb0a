"""The documentation builds as a site without a warning: no dead link, no page that is left out of the menu."""

from __future__ import annotations

import os
import pkgutil
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from amqproxy.cli.help import SITE
from amqproxy.configuration.config import Config
from amqproxy.configuration.environment import variables_of
from tests.docs.pages import DOCS, EVERY, ROOT

pytestmark = pytest.mark.once

PYTHON_ROW = re.compile(r"^\| [^|]+ \| (`amqproxy\..+) \|$", re.MULTILINE)

REFERENCE = {
    "rules": ("delivered_bytes", "limit_data", "shadow"),
    "json": ("delivery_tag", "../../schemas/frame.json"),
    "requests": ("rules-shadow", "broker-queues"),
    "python": ("read_decoded", "wait_for_async", "serve_in_thread", "MessageRecord", "ControlClient"),
}
"""Words that pages have which are made from the code."""


def built(root: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """What `make docs` does."""
    pytest.importorskip("mkdocs", reason="needs amqproxy[docs]") if os.environ.get("CI") != "true" else None
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)],
        cwd=root,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    done = built(ROOT, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    configuration = (tmp_path / "reference" / "configuration" / "index.html").read_text()
    assert not [variable for variable, _ in variables_of(Config) if variable not in configuration]
    for page, words in REFERENCE.items():
        shown = (tmp_path / "reference" / page / "index.html").read_text()
        assert not [word for word in words if word not in shown], page
    commands = (tmp_path / "reference" / "commands" / "index.html").read_text()
    assert "rules suggest" in commands
    assert "index.md" not in (tmp_path / "index.html").read_text()
    assert (tmp_path / "images" / "logo.svg").is_file(), "the icon of the chart"


def test_one_address_is_that_of_the_documentation() -> None:
    """The site and the repository have one address each; other tests compare those in the help and in alerts."""
    menu = (ROOT / "mkdocs.yml").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    chart = yaml.safe_load((ROOT / "helm" / "amqproxy" / "Chart.yaml").read_text())
    assert f"\nsite_url: {SITE}\n" in menu
    assert f"\nrepo_url: {project['Repository']}\n" in menu
    assert project["Documentation"] == chart["home"] == SITE
    assert chart["icon"].startswith(SITE)
    assert chart["sources"] == [project["Repository"]]
    others = re.compile(r"https://[\w-]+\.github\.io/\w+/")
    for page in EVERY:
        assert set(others.findall(page.read_text())) <= {SITE}, page


def test_stable_names_exist() -> None:
    names = re.findall(r"`(amqproxy\.[\w.]+)`", "".join(PYTHON_ROW.findall((DOCS / "python.md").read_text())))
    assert len(names) > 25
    for name in names:
        assert pkgutil.resolve_name(name) is not None


def test_dead_links_and_forgotten_pages_are_warnings(tmp_path: Path) -> None:
    """Each of these would end the build: of a page, of a heading, of a file of the repository, of an image."""
    for page in ROOT.glob("*.md"):
        shutil.copy(page, tmp_path)
    menu = (ROOT / "mkdocs.yml").read_text().partition("nav:")[0]
    (tmp_path / "mkdocs.yml").write_text(f"{menu}nav:\n  - index.md\n  - faq.md\n")
    docs = tmp_path / "docs"
    shutil.copytree(DOCS / "site", docs / "site")
    logo = tmp_path / "dashboard" / "ui" / "public" / "favicon.svg"
    logo.parent.mkdir(parents=True)
    logo.write_text("<svg/>")
    links = "[a](nowhere.md) [b](#nothing) [c](../monitoring/nothing.yml) ![d](images/nothing.png) [e](faq.md#nothing)"
    (docs / "faq.md").write_text(f"# Questions\n\n{links}\n")
    (docs / "forgotten.md").write_text("# Forgotten\n")
    (tmp_path / "README.md").write_text("# Start\n\n[f](docs/nothing.md)\n")
    done = built(tmp_path, tmp_path / "site")
    assert done.returncode != 0
    for fault in ("nowhere.md", "#nothing", "nothing.yml", "nothing.png", "docs/nothing.md", "forgotten.md"):
        assert any(fault in line for line in done.stderr.splitlines() if "WARNING" in line or "  - " in line), (
            fault,
            done.stderr,
        )

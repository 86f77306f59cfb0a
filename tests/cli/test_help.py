"""The help of the commands: examples that work, pages that exist, and paragraphs as wide as the terminal."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from amqproxy.cli.command import app
from amqproxy.cli.help import EXAMPLES, SITE, shown_default
from amqproxy.cli.printing import with_values_left_out
from amqproxy.rules.matching.filters import Filter
from tests.cli.command_tree import commands
from tests.cli.outcome import Amqproxy

pytestmark = pytest.mark.once

REPOSITORY = Path(__file__).parents[2]
WIDTH = 80
ALL = sorted({" ".join(name.split()[:depth]) for name, _ in commands(app) for depth in (0, 1, 2)})


@pytest.fixture(params=ALL)
def text(request: pytest.FixtureRequest, amqproxy: Amqproxy, monkeypatch: pytest.MonkeyPatch) -> str:
    """The help of a command on a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    return amqproxy(*request.param.split(), "--help").out


def test_it_ends_with_examples_urls_and_exit_codes(text: str) -> None:
    epilogue = text.rpartition("╯")[2]
    assert "\nExamples:\n  amqproxy " in epilogue  # its own: see below
    assert f"Documentation:\n  {SITE}" in epilogue
    assert "Exit codes: 0 success" in epilogue


def test_it_names_no_file_of_the_repository_and_no_default_that_says_nothing(text: str) -> None:
    assert "docs/" not in text
    for nothing in ("False", "None", "[]"):
        assert f"[default: {nothing}]" not in " ".join(text.split())


def test_its_lines_fill_the_terminal(text: str) -> None:
    lines = text.splitlines()
    assert max(map(len, lines)) <= WIDTH
    description = text.partition("╭")[0].partition("Examples:")[0].split("\n\n")[1:]
    for paragraph in description:
        for line, following in zip(paragraph.splitlines(), paragraph.splitlines()[1:], strict=False):
            assert len(line.rstrip()) + 1 + len(following.split(" ")[0]) > WIDTH


@pytest.mark.parametrize("example", [each for examples in EXAMPLES.values() for each in examples])
def test_an_example_is_understood_and_fits(example: str) -> None:
    words = shlex.split(example.partition(" >")[0])
    app.parse_args(with_values_left_out(words), print_error=False)
    assert len(f"  amqproxy {example}") <= WIDTH
    if "--filter" in words:
        Filter(words[words.index("--filter") + 1])


def test_its_urls_are_pages_of_the_site(text: str) -> None:
    menu = (REPOSITORY / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    urls = re.findall(r"https?://\S+", text.partition("Documentation:\n")[2])
    assert urls
    for url in urls:
        page = url.removeprefix(SITE).removesuffix("/")
        assert f"- {page}.md\n" in menu, url
        assert (REPOSITORY / "docs" / f"{page}.md").is_file()


def test_each_command_has_an_example_of_its_own() -> None:
    named = [name for name, _ in commands(app)]
    assert [name for name in named if name not in EXAMPLES] == []
    assert [each for name in named for each in EXAMPLES[name] if not f"{each} ".startswith(f"{name} ")] == []


@pytest.mark.parametrize(
    ("value", "shown"), [(None, None), (False, None), ((), None), ([], None), (True, "yes"), (0, "0"), ("tab", "tab")]
)
def test_defaults(value: object, shown: str | None) -> None:
    assert shown_default(value) == shown

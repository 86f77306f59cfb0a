"""Each example of the documentation is executed, or says to readers of its source why it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from amqproxy.configuration.config_file import parse
from tests.docs.page_runner import BLOCK
from tests.docs.pages import DONE, EVERY, ON_SPARK, ROOT, RULES

pytestmark = pytest.mark.once

EXECUTED = {"console", "python", "toml", "yaml", "ini"}
"""Languages of examples; others show data, or draw."""


def test_examples_are_executed() -> None:
    left_out: list[str] = []
    for page in EVERY:
        for block in BLOCK.finditer(page.read_text()):
            kind = block["kind"]
            if block["first"] or block["only"] or kind not in EXECUTED:
                continue
            is_done = page in DONE and (kind == "console" or block["title"] is not None)
            if not is_done and kind != "toml" and (page, kind) != (ON_SPARK, "python"):  # toml: all of which are below
                left_out.append(f"{page.relative_to(ROOT)}: {block['text']}")
    assert left_out == []


def test_the_readme_is_short_and_has_no_command_that_readers_do_not_see() -> None:
    page = (ROOT / "README.md").read_bytes()
    assert len(page) <= 9_000
    assert not any(block["first"] for block in BLOCK.finditer(page.decode()))


CONFIGS = [
    pytest.param(
        block["text"], page in RULES, id=f"{page.stem}-{page.read_text().count(chr(10), 0, block.start()) + 1}"
    )
    for page in EVERY
    for block in BLOCK.finditer(page.read_text())
    if block["kind"] == "toml" and not block["only"]
]


@pytest.mark.parametrize(("text", "is_rules"), CONFIGS)
def test_a_config_is_valid(text: str, is_rules: bool) -> None:
    """Those of the pages about rules are also run."""
    assert parse(text, Path("a.toml"))


def test_what_is_only_to_read_between_two_others_is_all_that_is_left_out() -> None:
    page = """
<!-- only to read: why -->
```console
$ first
```

```console
$ second
```

<!-- only to read: why -->
```console
$ third
```
"""
    assert [block["text"] for block in BLOCK.finditer(page) if not block["only"]] == ["$ second\n"]

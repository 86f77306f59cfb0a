"""Where code of the tests may be imported from."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

TESTS = Path(__file__).parent


def imported(source: str) -> Iterator[str]:
    """The modules that this source imports, anywhere in it; a name imported from a package may be one."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "."
            yield from (f"{node.module or ''}.{alias.name}" for alias in node.names)


def imported_test_modules(source: str) -> list[str]:
    return [
        name
        for name in imported(source)
        if name.startswith(("tests.", ".")) and any(part.startswith("test_") for part in name.split("."))
    ]


@pytest.mark.parametrize(
    "line",
    [
        "from tests.rules.test_context import GUEST",
        "from tests.rules import test_context",
        "import tests.rules.test_context",
        "def late():\n    from tests.test_app import started",
    ],
)
def test_an_import_from_a_test_module_is_found(line: str) -> None:
    assert imported_test_modules(line)


@pytest.mark.parametrize("path", sorted(TESTS.rglob("*.py")), ids=lambda path: str(path.relative_to(TESTS)))
def test_no_module_imports_a_test_module(path: Path) -> None:
    """What tests share belongs in a plain module that is named for what it contains."""
    assert not imported_test_modules(path.read_text())

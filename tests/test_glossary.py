"""The glossary is in order, has one entry for each term, and names what exists."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "glossary.md").read_text()
TERM = re.compile(r"^- \*\*(.+?)\*\*", re.MULTILINE)
PLACE = re.compile(r"`(\w+)` in\s+`([\w/]+\.py)`")


def definitions(path: Path) -> set[str]:
    """The names that a module defines: classes, functions, and what is assigned."""
    names: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


def test_terms_are_in_order_and_defined_once() -> None:
    terms = [term.lower() for term in TERM.findall(PAGE)]
    assert len(terms) > 60
    assert terms == sorted(set(terms))


def test_what_it_names_exists() -> None:
    places = PLACE.findall(PAGE)
    assert len(places) == PAGE.count(".py`") > 40
    missing = [f"{name} in {path}" for name, path in places if name not in definitions(ROOT / path)]
    assert missing == []


def test_the_readme_and_the_pages_link_to_it() -> None:
    for page in ("README.md", "docs/rules.md", "docs/control.md", "docs/states.md"):
        assert re.search(r"\]\((docs/)?glossary\.md\)", (ROOT / page).read_text()), page

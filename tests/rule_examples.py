"""The examples of rules that the documentation contains."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
PAGES = [*DOCS.glob("rules*.md"), *(DOCS / "rules").glob("*.md")]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


EXAMPLES = [
    pytest.param(block, id=f"{page.stem}-{place}")
    for page in sorted(PAGES)
    for place, (language, block) in enumerate(BLOCK.findall(page.read_text()))
    if language == "toml"
]

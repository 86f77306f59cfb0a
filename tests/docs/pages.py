"""The pages of the documentation, and which of their examples tests do."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"

DONE = [
    ROOT / "README.md",
    *(
        DOCS / f"{name}.md"
        for name in ("tutorial", "arrow", "captures", "findings", "messages", "opentelemetry", "pipeline", "testing")
    ),
    *sorted((DOCS / "howto").glob("*.md")),
]
"""Pages that are done as they are written, in `test_pages`."""

RULES = [*sorted(DOCS.glob("rules*.md")), *sorted((DOCS / "rules").glob("*.md"))]
"""Pages whose rules are run in front of RabbitMQ, in tests/real/test_rule_pages."""

EVERY = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])

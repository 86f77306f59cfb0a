"""The pages of the documentation, and which of their examples tests do."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"

DONE = [
    ROOT / "README.md",
    *(
        DOCS / f"{name}.md"
        for name in (
            "tutorial",
            "alerts",
            "arrow",
            "broker",
            "captures",
            "configuration",
            "control",
            "findings",
            "install",
            "management",
            "messages",
            "opentelemetry",
            "pipeline",
            "python",
            "testing",
            "upgrade",
        )
    ),
    *sorted((DOCS / "howto").glob("*.md")),
]
"""Pages that are done as they are written, in `test_pages`."""

FIRST_PAGES = [page for page in DONE if page.stem in ("README", "tutorial") or page.parent.name == "howto"]
"""Pages for newcomers, also executed on a new machine by `make chroot`."""

PROGRAMS = {
    "debug-a-stuck-consumer": "jq",
    "management": "curl",
    "migrate-from-cloudamqp-amqproxy": "curl",
    "record-in-production": "tshark",
}
"""The programs that pages run besides ours."""

RULES = [*sorted(DOCS.glob("rules*.md")), *sorted((DOCS / "rules").glob("*.md"))]
"""Pages whose rules are run in front of RabbitMQ, in tests/real/test_rule_pages."""

ON_SPARK = DOCS / "pipeline.md"
"""The page whose Python is run in tests/pipeline/test_page, with the Spark session of those tests."""

EVERY = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])

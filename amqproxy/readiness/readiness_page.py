"""The report as one self-contained HTML page: no script, no request, dark and light."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from amqproxy.export.html_report import POLICY, STYLE
from amqproxy.export.shown_text import shown
from amqproxy.rabbitmq.incompatibility import Level
from amqproxy.readiness.readiness import STEPS, Readiness
from amqproxy.readiness.readiness_text import MAX_USES, seen, use_line

_CLASSES = {Level.BREAKS: "error", Level.CHANGES: "warning", Level.DEPRECATED: "info"}


def readiness_page(report: Readiness) -> Iterator[str]:
    """Yield the page in pieces."""
    title = f"Upgrade to RabbitMQ {shown(report.target)}"
    yield (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<title>{title}</title><style>{STYLE}</style></head><body><h1>{title}</h1><p>{shown(report.verdict)}</p>"
    )
    if report.connections is not None:
        yield f'<p class="soft">{shown(seen(report))}</p>'
    for number, level in enumerate(Level, 1):
        found = report.of(level)
        if not found:
            continue
        yield f"<h2>{number}. {shown(STEPS[level])}</h2>"
        for kind, group in groupby(found, lambda each: each.kind):
            uses = list(group)
            items = "".join(f"<li>{shown(use_line(each))}</li>" for each in uses[:MAX_USES])
            if len(uses) > MAX_USES:
                items += f"<li>and {len(uses) - MAX_USES} more</li>"
            yield (
                f'<div class="finding {_CLASSES[level]}"><h3><em>{shown(level)}</em> {shown(kind)}: RabbitMQ '
                f"{shown(report.target)} {shown(uses[0].effect)}</h3><ul>{items}</ul><p>{shown(uses[0].why)}</p>"
                f"<p>{shown(uses[0].remedy)}</p></div>"
            )
    if report.rules:
        yield f'<h2>Rules that bridge it</h2><pre class="mono">{_preformatted(report.rules)}</pre>'
    yield "</body></html>\n"


def _preformatted(text: str) -> str:
    return "\n".join(shown(line) for line in text.splitlines())

"""The report as lines for people."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from amqproxy.rabbitmq.incompatibility import Level
from amqproxy.readiness.readiness import STEPS, Readiness
from amqproxy.readiness.use import Use
from amqproxy.taps.text import printable

MAX_USES = 20
"""Uses of one kind that are listed."""


def readiness_lines(report: Readiness) -> Iterator[str]:
    """Yield the verdict, then the uses by level and kind, with what to do, in the order in which to do it."""
    yield report.verdict
    if report.connections is not None:
        yield seen(report)
    for number, level in enumerate(Level, 1):
        found = report.of(level)
        if not found:
            continue
        yield ""
        yield f"{number}. {STEPS[level]}"
        for kind, group in groupby(found, lambda each: each.kind):
            uses = list(group)
            yield ""
            yield f"   {kind}: RabbitMQ {report.target} {uses[0].effect}"
            for each in uses[:MAX_USES]:
                yield f"     - {printable(use_line(each))}"
            if len(uses) > MAX_USES:
                yield f"     - and {len(uses) - MAX_USES} more"
            yield f"     why: {uses[0].why}"
            yield f"     do:  {uses[0].remedy}"
            if any(each.has_rule for each in uses):
                yield "     rule: a rule of the proxy bridges it (--write-rules FILE)"


def use_line(use: Use) -> str:
    """Return a use with its client, its user and how often it was seen."""
    client = "" if use.client is None else f" by {use.client}"
    user = "" if use.user is None else f" (user {use.user})"
    times = f", {use.times} times" if use.times > 1 else ""
    return f"{use.use}{client}{user}{times}"


def seen(report: Readiness) -> str:
    """Return what the report knows of the traffic."""
    text = f"Connections seen: {report.connections}."
    if report.unknown:
        text += f" Of {report.unknown} the beginning was not seen: their clients and limits are not known."
    return text

"""Lines about a run over a queue, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from amqproxy.views.columns import escaped

if TYPE_CHECKING:
    from amqproxy.workbench.disturbance import Disturbance
    from amqproxy.workbench.message_line import MessageLine
    from amqproxy.workbench.queue_facts import QueueFacts
    from amqproxy.workbench.run_report import RunReport

MAX_PLACES = 20
"""Places of a result that are shown."""

MAX_LEFT = 20
"""Left messages of a result that are shown."""

DONE = {
    "move": "moved",
    "requeue": "brought back",
    "edit": "edited",
    "drain": "written and removed",
    "fill": "published",
    "peek": "shown",
}


def before_lines(facts: QueueFacts, disturbance: Disturbance) -> Iterator[str]:
    """Yield what is known about a queue, and what the run does to it."""
    kind = f"{facts.type} queue" if facts.type != "stream" else "stream"
    yield f"{kind.strip()} {facts.name!r}: {facts.messages} messages, {facts.consumers} consumers"
    yield from disturbance.lines


def progress_line(report: RunReport) -> str:
    """Return the line of progress."""
    share = f"{report.looked_at} of {report.depth}" if report.depth else str(report.looked_at)
    return f"{share} looked at, {report.done} {DONE[report.command]}, {report.left_count} left"


def result_lines(report: RunReport) -> Iterator[str]:
    """Yield the result of a run."""
    would = "would be " if report.is_dry_run else ""
    to = f" to {report.to}" if report.to else ""
    yield f"{report.done} {would}{DONE[report.command]}{to}; {report.looked_at} of {report.depth} looked at"
    places = sorted(report.places.items(), key=lambda each: -each[1])
    for place, count in places[:MAX_PLACES]:
        yield f"  {count} to {place}"
    if len(places) > MAX_PLACES:
        yield f"  … and {len(places) - MAX_PLACES} further places (--json lists them)"
    if report.left_count:
        yield f"{report.left_count} left in the queue:"
        for each in report.left[:MAX_LEFT]:
            name = f" {each.message_id!r}" if each.message_id else ""
            yield f"  #{each.position}{name}: {shown(each.reason)}"
        if report.left_count > MAX_LEFT:
            yield f"  … and {report.left_count - MAX_LEFT} more (--json lists the first 1000)"
    if report.unreadable:
        yield f"{report.unreadable} left in the queue, since the filter fails on them"
    if report.rescued:
        yield f"{report.rescued} at the delivery limit, now at the end of the queue with a new count"
    if report.is_window_full:
        yield (
            f"the window is full: {report.not_looked_at} messages behind were not looked at. A larger --window looks "
            "deeper"
        )
    elif report.not_looked_at:
        yield f"{report.not_looked_at} messages behind were not looked at"
    if report.possible_repeats:
        yield (
            f"{report.possible_repeats} possible duplicates: earlier runs may have sent them before they were ended in "
            "the middle, or this run, before the target closed the channel at another message"
        )
    if report.uncertain:
        yield f"{report.uncertain} were sent, and their outcome is not known: they are in the queue, and perhaps there"


def message_lines(line: MessageLine, view: tuple[str, str] | None) -> Iterator[str]:
    """Yield a message as text; `view` is its body's form, and the text in that form."""
    marks = " redelivered" if line.redelivered else ""
    if line.delivery_count:
        marks += f" returned {line.delivery_count} times"
    form = f", {shown(view[0])}" if view else ""
    route = f"exchange {line.exchange!r} routing key {line.routing_key!r}"
    yield f"#{line.position} {route}{marks}: {line.size} bytes{form}"
    for name, value in line.properties.items():
        if name == "headers":
            for key, each in value.items():
                yield f"  headers.{shown(key)}: {_text(each)}"
        else:
            yield f"  {name}: {_text(value)}"
    if view is not None and line.size:
        yield from (f"    {shown(each)}" for each in view[1].splitlines())


def shown(text: str) -> str:
    """Escape the characters of a peer's text that would affect a terminal or begin a line; tabs stay."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each == "\t" else escaped(each) for each in text)


def _text(value: Any) -> str:
    return shown(value if isinstance(value, str) else msgspec.json.encode(value).decode())

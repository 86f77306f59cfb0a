"""An exporter: `amqproxy export a.pcapng --messages --format markdown --to report.md` writes a table for a wiki.

It is given the objects that `amqproxy decode --json` prints with the same options, as dictionaries: docs/messages.md
has their keys. It yields texts or bytes; the file appears once all is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

COLUMNS = ("type", "exchange", "routing_key", "queue", "size", "outcome")


def write(objects: Iterable[dict[str, Any]]) -> Iterator[str]:
    yield f"| {' | '.join(COLUMNS)} |\n"
    yield f"|{' --- |' * len(COLUMNS)}\n"
    for each in objects:
        yield f"| {' | '.join(_cell(each.get(name)) for name in COLUMNS)} |\n"


def _cell(value: Any) -> str:
    return "" if value is None else str(value).replace("|", "\\|").replace("\n", " ")

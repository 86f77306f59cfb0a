"""Metrics as an endpoint shows them, and as RabbitMQ's plugin does."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

FOLDER = Path(__file__).parent


class Exposed(NamedTuple):
    """A metric of an endpoint; `type` as in the text format."""

    type: str
    labels: frozenset[str]
    help: str


def exposed(text: str) -> dict[str, Exposed]:
    """The metrics of a text, by name."""
    found = {}
    for family in text_string_to_metric_families(text):
        kind = "untyped" if family.type in ("unknown", "untyped") else family.type
        for sample in family.samples:
            found[sample.name] = Exposed(kind, frozenset(sample.labels), family.documentation)
    return found


def values(text: str) -> dict[tuple[str, ...], float]:
    """The values of a text, by name and the values of its labels in the order of their names."""
    return {
        (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def rabbitmqs(minor: str, endpoint: str) -> dict[str, Exposed]:
    """The metrics of an endpoint of RabbitMQ, as recorded."""
    found = {}
    for line in (FOLDER / f"rabbitmq_{minor.replace('.', '_')}.tsv").read_text().splitlines()[1:]:
        place, name, kind, labels, help = line.split("\t")
        if place == endpoint:
            found[name] = Exposed(kind, frozenset(filter(None, labels.split(","))), help)
    return found

"""A metric in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from prometheus_client import generate_latest
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

Labels = Mapping[str, str]

SLICE = 500
"""Samples that are written before other requests have their turn."""

PREFIX = "rabbitmq_"
DETAILED_PREFIX = "rabbitmq_detailed_"


class Metric(NamedTuple):
    """A metric of RabbitMQ; `name` is without the prefix, `type` is counter, gauge or unknown."""

    name: str
    type: str
    help: str
    since: tuple[int, int] = (0, 0)
    """The first RabbitMQ version with this metric."""
    until: tuple[int, int] = (99, 0)
    """The first RabbitMQ version without it."""

    def exists_in(self, version: tuple[int, int]) -> bool:
        return self.since <= version < self.until

    def text(self, samples: Iterable[tuple[Labels, float]], prefix: str = PREFIX) -> Iterator[bytes]:
        """Yield the samples as text, a slice at a time; nothing without samples."""
        name = prefix + self.name
        left = iter(samples)
        is_first = True
        while part := list(islice(left, SLICE)):
            family = Family(name.removesuffix("_total") if self.type == "counter" else name, self.help, self.type)
            family.samples = [Sample(name, dict(labels), value) for labels, value in part]
            found = generate_latest(_Single(family))
            # The header of a metric, HELP and TYPE, may come only once.
            yield found if is_first else found.split(b"\n", 2)[2]
            is_first = False


class _Single(Collector):
    """A registry of one metric."""

    def __init__(self, family: Family) -> None:
        self._family = family

    def collect(self) -> Iterator[Family]:
        yield self._family

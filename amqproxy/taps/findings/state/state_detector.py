"""Detector of one kind of finding in the state of the proxy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, NamedTuple

from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.findings.state.proxy_state import ProxyState


class StateSighting(NamedTuple):
    """A finding about an upstream, a member or a file, the `subject`; `times` is how often since the last look."""

    subject: str
    text: str
    times: int = 1


class StateDetector:
    """Detector of one kind of finding in the state of the proxy.

    A subclass defines its `kind`, its severity, why it matters and a remedy. Its memory must be bounded by the state.
    """

    kind: ClassVar[str]
    severity: ClassVar[Severity]
    why: ClassVar[str]
    remedy: ClassVar[str]

    def look(self, state: ProxyState, now: float) -> Iterable[StateSighting]:
        """Return the sightings since the last look; `now` is in seconds since 1970."""
        raise NotImplementedError


class Rises:
    """The latest values of counts that only rise, by what they count."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def by(self, counts: Iterable[tuple[str, int]]) -> dict[str, int]:
        """Return by how much each count has risen since the last call; of others, nothing is remembered.

        A count that is lower than before is that of another thing of the same name, which began at 0.
        """
        found, before = dict(counts), self._counts
        self._counts = found
        return {
            name: risen
            for name, count in found.items()
            if (risen := count - before.get(name, 0) if count >= before.get(name, 0) else count)
        }

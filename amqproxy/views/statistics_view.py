"""Figures of the whole selection: `--stats`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from amqproxy.capture.decoded import Decoded
from amqproxy.capture.selection.selection import Selection
from amqproxy.rules.matching.filters import Filter
from amqproxy.views.statistics_collector import Collector
from amqproxy.views.statistics_report import USUAL_TOP, statistics_of
from amqproxy.views.statistics_text import statistics_lines


class StatisticsView:
    """Collects figures of all captures, and renders them at the end, as text or as a JSON object.

    Text has Unicode bars if `blocks`. Each table of the heaviest has `top` entries.
    """

    def __init__(
        self,
        selection: Selection,
        wanted: Filter | None = None,
        *,
        json: bool = False,
        blocks: bool = False,
        top: int = USUAL_TOP,
    ) -> None:
        self._collector = Collector(selection, wanted)
        self._json = json
        self._blocks = blocks
        self._top = top

    def lines(self, decoded: Iterable[Decoded]) -> Iterator[str]:
        self._collector.feed(decoded)
        return iter(())

    def finish(self) -> Iterator[str]:
        found = statistics_of(self._collector, top=self._top)
        if self._json:
            return iter([found.to_json().decode()])
        return statistics_lines(found, blocks=self._blocks)

"""A line per frame, or per message or finding."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain

import msgspec

from amqproxy.capture.decoded import Decoded, records_of
from amqproxy.capture.filtering import filtered
from amqproxy.capture.json_lines import JSONLines
from amqproxy.capture.observed import observed
from amqproxy.capture.selection.selection import Selection
from amqproxy.rules.engine.command_filter import CommandFilter
from amqproxy.rules.matching.filters import Filter
from amqproxy.rules.message_filter import message_filters_of
from amqproxy.taps.observer import ObserverSettings, Report
from amqproxy.taps.record import Record
from amqproxy.views.columns import Render


class FrameLines:
    """Renders each selected frame whose command passes the filter, with `body` bytes of bodies."""

    def __init__(
        self,
        render: Callable[[Record], str],
        selection: Selection,
        wanted: Filter | None = None,
        *,
        body: int = 0,
        has_both_legs: bool = False,
    ) -> None:
        self._render = render
        self._selection = selection
        self._wanted = wanted
        self._records = partial(records_of, body=body, has_both_legs=has_both_legs)

    def lines(self, decoded: Iterable[Decoded]) -> Iterator[str]:
        chosen: Iterable[Decoded] = self._selection.connections(decoded)
        if self._wanted is not None:
            chosen = filtered(chosen, self._wanted)
        chosen = self._selection.numbered(self._selection.narrowed(chosen))
        return map(self._render, chain.from_iterable(map(self._records, chosen)))

    def finish(self) -> Iterator[str]:
        return iter(())


class FrameJSONLines:
    """The frames that `FrameLines` selects, as lines of JSON, several at a time."""

    def __init__(
        self,
        selection: Selection,
        wanted: Filter | None = None,
        *,
        body: int = 0,
        has_both_legs: bool = False,
    ) -> None:
        self._selection = selection
        self._wanted = wanted
        self._json = JSONLines(body, has_both_legs=has_both_legs)

    def lines(self, decoded: Iterable[Decoded]) -> Iterator[str]:
        chosen: Iterable[Decoded] = self._selection.connections(decoded)
        if self._wanted is not None:
            chosen = filtered(chosen, self._wanted)
        json = self._json
        for each in self._selection.numbered(self._selection.narrowed(chosen)):
            if json.add(each):
                yield json.take().decode()[:-1]

    def finish(self) -> Iterator[str]:
        return iter(())


class FrameColumns:
    """The frames that `FrameLines` selects, with their lines of JSON converted by `render`."""

    def __init__(
        self,
        render: Render,
        selection: Selection,
        wanted: Filter | None = None,
        *,
        body: int = 0,
        heading: str | None = None,
        has_both_legs: bool = False,
    ) -> None:
        self._render = render
        self._heading = [] if heading is None else [heading]
        self._json = FrameJSONLines(selection, wanted, body=body, has_both_legs=has_both_legs)

    def lines(self, decoded: Iterable[Decoded]) -> Iterator[str]:
        heading, self._heading = self._heading, []
        yield from heading
        for lines in self._json.lines(decoded):
            yield from self._render(lines.encode())

    def finish(self) -> Iterator[str]:
        return iter(())


class ReportLines:
    """Renders each selected message or finding after passing it to `note`; the filter applies to messages.

    `heading` is the first line, before those of the first capture.
    """

    def __init__(
        self,
        render: Callable[[Report], str],
        selection: Selection,
        wanted: Filter | None,
        settings: ObserverSettings,
        note: Callable[[Report], None],
        *,
        heading: str | None = None,
    ) -> None:
        self._heading = [] if heading is None else [heading]
        self._render = render
        self._selection = selection
        self._note = note
        self._selector_of = None if wanted is None else message_filters_of(wanted)
        if wanted is not None:
            settings = msgspec.structs.replace(settings, kept_body=CommandFilter.kept_body(wanted))
        self._settings = settings

    def lines(self, decoded: Iterable[Decoded]) -> Iterator[str]:
        chosen = self._selection.connections(decoded)
        heading, self._heading = self._heading, []
        yield from heading
        for report in observed(chosen, self._settings, self._selector_of):
            if self._selection.shows(report.ts_ns, report.channel):
                self._note(report)
                number = self._selection.client_stream(report.stream)
                yield self._render(report if number is None else msgspec.structs.replace(report, stream=number))

    def finish(self) -> Iterator[str]:
        return iter(())

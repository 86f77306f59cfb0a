"""The page in the terminal."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Footer, Input, Static, TabbedContent, TabPane

from amqproxy.control import RequestError
from amqproxy.top.proxy_source import Source
from amqproxy.top.samples import Entry, Sample
from amqproxy.top.views import VIEWS, View, overview, rows

LEAST_WINDOW = 0.5
"""Minimum time between two compared samples, in seconds, since keys may trigger further queries."""

MOST_SAMPLES = 16
"""Number of samples that are kept for comparison."""

COURTESY = 5.0
"""Minimum pause after a query, in multiples of its duration, to keep the load on a busy proxy low."""

STYLE = """
Screen { overflow: hidden; }
TabbedContent, ContentSwitcher, TabPane { height: 1fr; }
#overview { height: auto; padding: 0 1; }
#status { height: 1; padding: 0 1; color: $text-muted; }
#status.lost { background: $error; color: $text; }
#filter { display: none; height: 1; border: none; padding: 0 1; }
#filter.shown { display: block; }
DataTable { height: 1fr; }
TabPane { padding: 0; }
"""


class Sorting:
    """Sort order of a view."""

    def __init__(self) -> None:
        self.column = 0
        self.is_reversed = False


class TopApp(App[None]):
    """Shows the data of `source`, queried every `interval` seconds; `None`: only on a key press."""

    CSS = STYLE
    TITLE = "amqproxy top"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        *[Binding(str(at), f"show({at})", view.title) for at, view in enumerate(VIEWS, 1)],
        Binding("s", "sort(1)", "Sort by next"),
        Binding("S", "sort(-1)", "previous"),
        Binding("r", "reverse", "Reverse"),
        Binding("slash", "filter", "Filter"),
        Binding("escape", "close_filter", "Clear", show=False, priority=True),
        Binding("space", "refresh_now", "Refresh"),
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", "Quit", show=False, priority=True),  # as in every other command
    ]

    def __init__(self, source: Source, interval: float | None) -> None:
        super().__init__()
        self._source = source
        self._interval = interval
        self._before: Sample | None = None
        self._sample: Sample | None = None
        self._samples: deque[Sample] = deque(maxlen=MOST_SAMPLES)
        self._entries: dict[str, list[Entry]] = {}
        self._left_out: dict[str, int] = {}
        self._asked: dict[str, tuple[float, list[Entry]]] = {}
        self._sorting = {view.request: Sorting() for view in VIEWS}
        self._asking = asyncio.Lock()
        self._lost = ""

    def compose(self) -> ComposeResult:
        yield Static(id="overview", markup=False)
        with TabbedContent():
            for view in VIEWS:
                with TabPane(view.title, id=view.request):
                    yield DataTable[Text](id=f"table-{view.request}", cursor_type="row", zebra_stripes=True)
        yield Static(id="status", markup=False)
        yield Input(placeholder="words that rows must contain; Escape shows all rows", id="filter")
        yield Footer()

    def on_mount(self) -> None:
        for view in VIEWS:
            self._table(view).add_columns(*self._headings(view))
        self._table(self.view).focus()
        if self._interval is not None:
            self.run_worker(self._keep_asking(self._interval), exclusive=True)

    async def on_unmount(self) -> None:
        await self._source.aclose()

    # --- asking

    @property
    def view(self) -> View:
        """The list that is shown."""
        active = self.query_one(TabbedContent).active
        return next((view for view in VIEWS if view.request == active), VIEWS[0])

    async def _keep_asking(self, interval: float) -> None:
        while True:
            began = time.monotonic()
            await self.refresh_view()
            await asyncio.sleep(max(interval, COURTESY * (time.monotonic() - began)))

    async def refresh_view(self) -> None:
        """Query the current list, and show it."""
        async with self._asking:
            view = self.view
            try:
                sample = Sample(await self._source.ask("stats"))
                response = await self._source.ask(view.request)
            except RequestError as error:
                self._lost = f"not connected: {error}"
            else:
                self._lost = ""
                self._keep(sample)
                self._take(view, sample, response[view.request], response.get("left_out", 0))
            self._show()

    def _keep(self, sample: Sample) -> None:
        """Compare a sample with the newest one that is old enough."""
        then = [each for each in self._samples if each.time <= sample.time - LEAST_WINDOW]
        if then or self._before is None:
            self._before = then[-1] if then else self._sample
        self._samples.append(sample)
        self._sample = sample

    def _take(self, view: View, sample: Sample, entries: list[Entry], left_out: int) -> None:
        then, before = self._asked.get(view.request, (sample.time, []))
        if self._before is not None and self._before.process["started_at"] != sample.process["started_at"]:
            before = []  # a new process numbers its sessions again
        self._asked[view.request] = sample.time, entries
        self._entries[view.request] = view.entries(before, entries, sample.time - then)
        self._left_out[view.request] = left_out

    # --- showing

    def _table(self, view: View) -> DataTable[Text]:
        return self.query_one(f"#table-{view.request}", DataTable)

    def _headings(self, view: View) -> list[Text]:
        """Return the column headings, each with room for the sort mark."""
        sorting = self._sorting[view.request]
        found = []
        for at, column in enumerate(view.columns):
            mark = ("▼" if sorting.is_reversed else "▲") if at == sorting.column else " "
            heading = f"{mark}{column.heading}" if column.is_number else f"{column.heading}{mark}"
            found.append(Text(heading, justify="right" if column.is_number else "left"))
        return found

    def _show(self) -> None:
        if self._sample is not None:
            self.query_one("#overview", Static).update("\n".join(overview(self._before, self._sample)))
        status = self.query_one("#status", Static)
        status.set_class(bool(self._lost), "lost")
        shown = self._show_rows(self.view)
        status.update(self._lost or shown)

    def _show_rows(self, view: View) -> str:
        """Show the rows of a list, keep the cursor on its row, and describe them."""
        sorting = self._sorting[view.request]
        wanted = self.query_one("#filter", Input).value
        entries = self._entries.get(view.request, [])
        found = rows(view, entries, sort=sorting.column, is_reversed=sorting.is_reversed, filter=wanted)
        table = self._table(view)
        cursor, scroll = self._under_cursor(table), table.scroll_offset
        for shown, heading in zip(table.ordered_columns, self._headings(view), strict=True):
            shown.label = heading
        table.clear()
        at = 0
        alike: Counter[str] = Counter()
        for number, (identity, cells) in enumerate(found):
            alike[repr(identity)] += 1  # redacted names may be equal
            key = f"{identity!r} {alike[repr(identity)]}"
            texts = [
                Text(cell, justify="right" if column.is_number else "left")
                for column, cell in zip(view.columns, cells, strict=True)
            ]
            table.add_row(*texts, key=key)
            if key == cursor:
                at = number
        if found:
            table.move_cursor(row=at, scroll=False)
        table.scroll_to(scroll.x, scroll.y, animate=False)
        more = self._left_out.get(view.request, 0)
        count = f"{len(found)} of {len(entries) + more} {view.noun}"
        column = view.columns[sorting.column].heading
        filtered = f", with {wanted}" if wanted else ""
        return f"{count}, by {column}{' from the largest' if sorting.is_reversed else ''}{filtered}"

    @staticmethod
    def _under_cursor(table: DataTable[Text]) -> str | None:
        """Return the identity of the row under the cursor."""
        if not table.row_count:
            return None
        key: str | None = table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value
        return key

    # --- keys

    def action_show(self, number: int) -> None:
        """Show another list."""
        self.query_one(TabbedContent).active = VIEWS[number - 1].request

    def on_tabbed_content_tab_activated(self) -> None:
        self._table(self.view).focus()
        self._show()
        if self._interval is not None:
            self.run_worker(self.refresh_view())

    def action_sort(self, step: int) -> None:
        """Sort by the next column, or by the one before."""
        view = self.view
        self._sort_by((self._sorting[view.request].column + step) % len(view.columns))

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        if event.column_index == self._sorting[self.view.request].column:
            self.action_reverse()
        else:
            self._sort_by(event.column_index)

    def _sort_by(self, column: int) -> None:
        view = self.view
        sorting = self._sorting[view.request]
        sorting.column, sorting.is_reversed = column, view.columns[column].is_number
        self._show()

    def action_reverse(self) -> None:
        """Sort the other way round."""
        sorting = self._sorting[self.view.request]
        sorting.is_reversed = not sorting.is_reversed
        self._show()

    def action_filter(self) -> None:
        """Open the filter field, whose words each shown row must contain."""
        field = self.query_one("#filter", Input)
        field.add_class("shown")
        field.focus()

    def action_close_filter(self) -> None:
        """Show all rows again."""
        field = self.query_one("#filter", Input)
        field.value = ""
        field.remove_class("shown")
        self._table(self.view).focus()

    def on_input_changed(self) -> None:
        self._show()

    def on_input_submitted(self) -> None:
        self._table(self.view).focus()

    async def action_refresh_now(self) -> None:
        """Query now."""
        await self.refresh_view()

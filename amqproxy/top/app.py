"""The screen in the terminal: a header, one of the lists or a page, the status, and the keys."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import ScrollableContainer
from textual.widgets import DataTable, Footer, Input, Static, TabbedContent, TabPane

from amqproxy.control import RequestError
from amqproxy.top.connection_page import connection_page
from amqproxy.top.proxy_source import Source
from amqproxy.top.samples import Entry, Sample
from amqproxy.top.views import MOST_ROWS, VIEWS, View, header, rows

LEAST_WINDOW = 0.5
"""Minimum time between two compared samples, in seconds, since keys may trigger further queries."""

MOST_SAMPLES = 16
"""Number of samples that are kept for comparison."""

COURTESY = 5.0
"""Minimum pause after a query, in multiples of its duration, to keep the load on a busy proxy low."""

STYLE = """
Screen { overflow: hidden; }
TabbedContent, ContentSwitcher, TabPane { height: 1fr; }
#header { height: 2; text-wrap: nowrap; }
#page { display: none; height: 1fr; scrollbar-size: 1 1; }
#page-text { width: auto; }
.paged #page { display: block; }
.paged TabbedContent { display: none; }
#status { height: 1; padding: 0 1; color: $text-muted; }
#status.lost { background: $error; color: $text; }
#filter { display: none; height: 1; border: none; padding: 0 1; }
#filter.shown { display: block; }
DataTable { height: 1fr; }
TabPane { padding: 0; }
"""


HELP = f"""\
Keys of amqproxy top

1 to 4      another list: connections, channels, consumers, topology
↑ ↓         another row; ← → scroll to further columns
Enter       open the connection of the row; Escape goes back
s, S        sort by the next column, or by the one before; or click on a heading
r           reverse the order
/           filter: rows must contain each word; Escape shows all rows
space       update at once
q, Ctrl-C   quit

client/s, server/s   bytes (of channels: messages) from either side per second
unacked              deliveries that the client has not acknowledged
unconfirmed          publishes that the broker has not confirmed
confirm, ack, here   time from publish to confirm, delivery to ack, in the proxy
late by              delay of the proxy's event loop

Lists show the first {MOST_ROWS} rows in their order.
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
        *[Binding(str(at), f"show({at})", view.title, show=False) for at, view in enumerate(VIEWS, 1)],
        Binding("enter", "open", "Open", priority=True),
        Binding("s", "sort(1)", "Sort"),
        Binding("S", "sort(-1)", "Sort by the column before", show=False),
        Binding("r", "reverse", "Reverse"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("escape", "leave", "Back", priority=True),
        Binding("space", "refresh_now", "Refresh", show=False),
        Binding("question_mark", "help", "Help", key_display="?"),
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
        self._sessions: list[int | None] = []
        self._opened: int | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="header", markup=False)
        with TabbedContent():
            for at, view in enumerate(VIEWS, 1):
                with TabPane(f"{at} {view.title}", id=view.request):
                    yield DataTable[Text](id=f"table-{view.request}", cursor_type="row", zebra_stripes=True)
        with ScrollableContainer(id="page"):
            yield Static(id="page-text", markup=False)
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
        """Query the lists that are shown, and show them."""
        async with self._asking:
            views = [self.view] if self._opened is None else VIEWS[:3]
            try:
                sample = Sample(await self._source.ask("stats"))
                responses = [await self._source.ask(view.request) for view in views]
            except RequestError as error:
                self._lost = f"not connected: {error}"
            else:
                self._lost = ""
                self._keep(sample)
                for view, response in zip(views, responses, strict=True):
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
            lines = header(self._before, self._sample, self.size.width)
            self.query_one("#header", Static).update("\n".join(lines))
        status = self.query_one("#status", Static)
        status.set_class(bool(self._lost), "lost")
        shown = self._show_rows(self.view)
        status.update(self._lost or shown)
        if self._opened is not None:
            self._show_page(self._page_of(self._opened))

    def _page_of(self, session: int) -> str:
        connections, channels, consumers = (
            [entry for entry in self._entries.get(view.request, ()) if entry["session"] == session]
            for view in VIEWS[:3]
        )
        if not connections:
            return f"Connection {session} is not open, or not among those that the proxy lists."
        return connection_page(connections[0], channels, consumers, time.time())

    def _show_page(self, text: str) -> None:
        self.query_one("#page-text", Static).update(Text(text, no_wrap=True))
        if not self.screen.has_class("paged"):
            self.screen.add_class("paged")
            self.query_one("#page").focus()

    def on_resize(self) -> None:
        if self._sample is not None:  # before the first one, the lists may not be mounted
            self._show()

    def _show_rows(self, view: View) -> str:
        """Show the rows of a list, keep the cursor on its row, and describe them."""
        sorting = self._sorting[view.request]
        wanted = self.query_one("#filter", Input).value
        entries = self._entries.get(view.request, [])
        found = rows(
            view,
            entries,
            sort=sorting.column,
            is_reversed=sorting.is_reversed,
            filter=wanted,
            width=self.size.width,
        )
        table = self._table(view)
        cursor, scroll = self._under_cursor(table), table.scroll_offset
        for shown, heading in zip(table.ordered_columns, self._headings(view), strict=True):
            shown.label = heading
        table.clear()
        at = 0
        alike: Counter[str] = Counter()
        self._sessions = [row.session for row in found]
        for number, row in enumerate(found):
            alike[repr(row.key)] += 1  # redacted names may be equal
            key = f"{row.key!r} {alike[repr(row.key)]}"
            texts = [
                Text(cell, justify="right" if column.is_number else "left")
                for column, cell in zip(view.columns, row.cells, strict=True)
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
        self._close_page()  # after that: a list that gets the focus becomes the active one

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

    async def action_open(self) -> None:
        """Open the connection of the row under the cursor; from the filter, go back to the list."""
        table = self._table(self.view)
        if self.screen.has_class("paged"):
            return
        if self.query_one("#filter").has_focus:
            table.focus()
        elif self._sessions:
            self._opened = self._sessions[table.cursor_row]
            if self._opened is None:
                self._show_page("The client that declared this object is not known.")
            else:
                await self.refresh_view()

    def action_help(self) -> None:
        """Show the keys, and what the columns mean."""
        self._opened = None
        self._show_page(HELP)

    def action_leave(self) -> None:
        """Close the page, or show all rows again."""
        if self.screen.has_class("paged"):
            self._close_page()
            return
        field = self.query_one("#filter", Input)
        field.value = ""
        field.remove_class("shown")
        self._table(self.view).focus()

    def _close_page(self) -> None:
        self._opened = None
        self.screen.remove_class("paged")
        self._table(self.view).focus()

    def on_input_changed(self) -> None:
        self._show()

    async def action_refresh_now(self) -> None:
        """Query now."""
        await self.refresh_view()

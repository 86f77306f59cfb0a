"""The page, with a source that a test changes; textual's pilot presses the keys."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise

from textual.pilot import Pilot
from textual.widgets import DataTable, Footer, Input, Static, TabbedContent

from amqproxy.top.app import HELP, TopApp
from tests.top.fake_source import FakeSource, connection

Play = Callable[[TopApp, Pilot[None]], Awaitable[None]]


def play(source: FakeSource, script: Play) -> None:
    """Start the page, ask the source once, and do what a script does."""

    async def run() -> None:
        app = TopApp(source, None)
        async with app.run_test(size=(160, 30)) as pilot:
            await pilot.press("space")
            await script(app, pilot)
        assert source.is_closed

    asyncio.run(run())


def table(app: TopApp) -> list[list[str]]:
    """The rows of the list that is shown, without cells that are empty."""
    shown = app.query_one(f"#table-{app.view.request}", DataTable)
    return [[cell.plain for cell in shown.get_row_at(at) if cell.plain] for at in range(shown.row_count)]


def text(app: TopApp, name: str) -> str:
    return str(app.query_one(f"#{name}", Static).render())


def first_cells(app: TopApp) -> list[str]:
    return [row[0] for row in table(app)]


def two_users() -> FakeSource:
    return FakeSource(connections=[connection(1, "bob"), connection(2, "alice"), connection(3, "bob")])


def test_connections_and_their_rates() -> None:
    source = two_users()

    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        assert first_cells(app) == ["1", "2", "3"]
        assert "3 of 3 connections, by session" in text(app, "status")
        assert text(app, "header").startswith("up 1 s  late by 200 µs")
        source.responses["connections"] = [connection(1, bytes={"client": 3500, "server": 0})]
        await pilot.press("space")
        [row] = table(app)
        assert "2.5 kB/s" in row

    play(source, script)


def test_rates_are_of_half_a_second_at_least() -> None:
    source = two_users()

    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        for time, count in ((10.0, 100.0), (10.9, 190.0), (11.0, 200.0), (11.1, 210.0)):
            source.time, source.values["amqproxy_messages_published_total"] = time - 1.0, count
            await pilot.press("space")
            if time > 11.0:
                assert "published 100/s" in text(app, "header")

    play(source, script)


def test_sorting_with_keys() -> None:
    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("r")
        assert first_cells(app) == ["3", "2", "1"]
        await pilot.press("s", "s")
        assert first_cells(app) == ["2", "1", "3"]
        assert "by user" in text(app, "status")
        heading = app.query_one("#table-connections", DataTable).ordered_columns[2].label
        assert str(heading) == "user▲"
        await pilot.press("S", "S", "S")
        assert "by age from the largest" in text(app, "status")

    play(two_users(), script)


def test_sorting_with_the_mouse() -> None:
    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.click("#table-connections", offset=(3, 0))
        assert first_cells(app) == ["3", "2", "1"]
        await pilot.click("#table-connections", offset=(14, 0))
        assert "by name" in text(app, "status")

    play(two_users(), script)


def test_a_filter() -> None:
    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("slash", *"bob")
        assert first_cells(app) == ["1", "3"]
        assert "2 of 3 connections, by session, with bob" in text(app, "status")
        await pilot.press("enter")
        assert app.focused is app.query_one("#table-connections")
        await pilot.press("space", "r")
        assert first_cells(app) == ["3", "1"]
        await pilot.press("escape")
        assert first_cells(app) == ["3", "2", "1"]
        assert not app.query_one("#filter", Input).has_class("shown")

    play(two_users(), script)


def test_the_other_lists() -> None:
    source = two_users()
    known = {"session": 1, "channel": 1, "user": "bob", "vhost": "/", "name": ""}
    source.responses |= {
        "channels": [
            known
            | {"state": "open", "mode": "tx", "prefetch": 5, "global_prefetch": 0, "consumers": 1}
            | {"messages": {"client": 1, "server": 2}, "open_content": {"client": None, "server": None}}
        ],
        "consumers": [
            known
            | {"queue": "q", "consumer_tag": "t", "no_ack": True, "exclusive": False, "prefetch": 5, "arguments": {}}
        ],
        "topology": [
            {"kind": "queue", "vhost": "/", "name": "q", "durable": True, "arguments": {}, "state": "declared"}
            | {"declared_by": None, "consumers": 1}
        ],
    }

    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("2", "space")
        assert table(app) == [["1", "1", "5", "bob", "open", "/", "tx", "0", "1", "1", "2"]]
        await pilot.press("3", "space")
        assert table(app) == [["1", "1", "q", "5", "yes", "bob", "/", "t"]]
        await pilot.press("4", "space")
        assert table(app) == [["queue", "q", "durable", "declared", "1", "/"]]
        await pilot.press("1")
        assert app.query_one(TabbedContent).active == "connections"
        assert len(table(app)) == 3

    play(source, script)


def test_the_cursor_stays_on_its_row() -> None:
    source = two_users()

    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("down", "down")
        shown = app.query_one("#table-connections", DataTable)
        assert shown.cursor_row == 2
        source.responses["connections"] = [connection(0), connection(3), connection(4), connection(2)]
        await pilot.press("space")
        assert shown.cursor_row == 2
        await pilot.press("r")
        assert shown.cursor_row == 1
        source.responses["connections"] = []
        await pilot.press("space")
        assert table(app) == []

    play(source, script)


def test_a_proxy_that_goes_and_comes_again() -> None:
    source = two_users()

    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        source.is_gone = True
        await pilot.press("space")
        assert text(app, "status") == "not connected: no amqproxy answers at here"
        assert app.query_one("#status").has_class("lost")
        assert len(table(app)) == 3
        source.is_gone = False
        source.time, source.started_at = 500.0, 490.0
        source.responses["connections"] = [connection(1, bytes={"client": 9000, "server": 0})]
        await pilot.press("space")
        assert not app.query_one("#status").has_class("lost")
        [row] = table(app)
        assert not [cell for cell in row if cell.endswith("/s")]
        assert "up 11 s" in text(app, "header")

    play(source, script)


def test_what_clients_call_themselves_is_no_markup() -> None:
    source = FakeSource(connections=[connection(1, "[red]bob[/red]", name="a\x1b[31m")])
    source.left_out = 7

    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        [row] = table(app)
        assert "[red]bob[/red]" in row
        assert '"a\\u001b[31m"' in row
        assert "1 of 8 connections" in text(app, "status")

    play(source, script)


def test_it_asks_by_itself_at_once() -> None:
    source = two_users()

    async def run() -> None:
        asked = asyncio.Event()
        ask = source.ask

        async def noted(request: str) -> dict[str, object]:
            response = await ask(request)
            if request == "connections":
                asked.set()
            return response

        source.ask = noted  # type: ignore[method-assign]
        app = TopApp(source, 3600.0)
        async with app.run_test() as pilot:
            async with asyncio.timeout(20):
                await asked.wait()
            await pilot.press("space")
            assert len(table(app)) == 3
            await pilot.press("q")

    asyncio.run(run())


def test_all_of_it_is_on_a_small_screen() -> None:
    source = FakeSource(connections=[connection(number) for number in range(1, 100)])

    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.resize_terminal(80, 24)
        await pilot.press("slash")
        regions = [app.query_one(f"#{name}").region for name in ("header", "table-connections", "status", "filter")]
        regions.append(app.query_one(Footer).region)
        assert regions[0].y == 0
        assert all(one.bottom <= other.y for one, other in pairwise(regions))
        assert (regions[-1].bottom, app.screen.max_scroll_y) == (24, 0)
        assert regions[1].height > 8

    play(source, script)


def test_ctrl_c_ends_it_also_while_a_filter_is_typed() -> None:
    for keys in ((), ("slash", "b")):

        async def script(app: TopApp, pilot: Pilot[None], keys: tuple[str, ...] = keys) -> None:
            await pilot.press(*keys, "ctrl+c")
            assert app.return_code == 0

        play(two_users(), script)


def test_objects_whose_names_are_redacted_are_rows_of_their_own() -> None:
    queue: dict[str, object] = {"kind": "queue", "vhost": "/", "name": "***", "state": "declared", "arguments": {}}
    queue["declared_by"] = None
    source = FakeSource(connections=[], topology=[queue, queue])

    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("4", "space", "down", "space")
        assert len(table(app)) == 2
        assert app.query_one("#table-topology", DataTable).cursor_row == 1

    play(source, script)


def test_enter_opens_the_connection_of_a_row() -> None:
    source = two_users()
    consumer = {"session": 2, "channel": 1, "user": "alice", "vhost": "/", "name": "", "queue": "orders"}
    consumer |= {"consumer_tag": "t", "no_ack": False, "exclusive": False, "prefetch": 5, "arguments": {}}
    source.responses["consumers"] = [consumer]

    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("down", "enter")
        page = text(app, "page-text")
        assert page.startswith("Connection 2\n")
        assert "alice" in page
        assert "No channels" in page
        assert "orders" in page
        assert not app.query_one(TabbedContent).display
        source.responses["connections"] = [connection(1)]
        await pilot.press("space")
        assert "Connection 2 is not open" in text(app, "page-text")
        await pilot.press("escape")
        assert app.query_one(TabbedContent).display
        assert app.focused is app.query_one("#table-connections")
        await pilot.press("3", "space", "enter")
        assert "Connection 2 is not open" in text(app, "page-text")
        await pilot.press("1", "space")
        assert first_cells(app) == ["1"]

    play(source, script)


def test_an_object_whose_client_is_not_known() -> None:
    queue: dict[str, object] = {
        "kind": "queue",
        "vhost": "/",
        "name": "q",
        "state": "used",
        "declared_by": None,
        "arguments": {},
    }

    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("enter")  # no row, nothing to open
        assert app.query_one(TabbedContent).display
        await pilot.press("4", "space", "enter")
        assert "not known" in text(app, "page-text")

    play(FakeSource(connections=[], topology=[queue]), script)


def test_help() -> None:
    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("question_mark", "space")
        assert text(app, "page-text").startswith("Keys of amqproxy top")
        assert max(map(len, HELP.splitlines())) <= 80
        await pilot.press("enter", "escape")
        assert len(table(app)) == 3

    play(two_users(), script)

"""Frames, as they pass: a filter, one frame with its fields and bytes, pause, and what is lost on the way."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.browser.screens import rows, set_filter
from tests.dashboard.browser.stage import Stage, box_of
from tests.dashboard.browser.traffic import connected
from tests.dashboard.browser.watched_page import WatchedPage
from tests.real import raw
from tests.real.poll import until
from tests.real.proxy import command

pytestmark = [pytest.mark.real, pytest.mark.once]  # the page is not compiled


@pytest.fixture
def frames(stage: Stage, page: WatchedPage) -> Any:
    """The window, with frames in it."""
    from playwright.sync_api import expect

    page.goto(stage.url + "frames")
    expect(rows(page.page).first).to_be_visible()
    return page.page


def test_a_filter_and_one_that_is_wrong(frames: Any) -> None:
    from playwright.sync_api import expect

    set_filter(frames, "method == 'queue.declare' && queue == 'orders'")
    expect(rows(frames)).to_have_count(1)
    expect(rows(frames).first).to_contain_text("queue.declare")
    assert "filter=" in frames.url  # so that it can be shared
    frames.reload()
    expect(rows(frames)).to_have_count(1)
    set_filter(frames, "exchang == 'orders'")
    expect(frames.get_by_role("alert")).to_contain_text("^")
    set_filter(frames, "method == 'tx.commit'")
    expect(frames.get_by_text("No match.")).to_be_visible()
    frames.get_by_role("button", name="Show all").click()
    expect(rows(frames)).not_to_have_count(0)


def test_one_frame_has_its_fields_and_its_bytes(frames: Any) -> None:
    from playwright.sync_api import expect

    set_filter(frames, "method == 'queue.declare' && queue == 'orders'")
    expect(rows(frames)).to_have_count(1)
    asked: list[str] = []
    frames.on("request", lambda request: asked.append(request.url))
    rows(frames).first.click()
    tree = frames.get_by_role("tree", name="Fields")
    expect(tree).to_contain_text("orders")
    tree.get_by_role("treeitem").filter(has_text="orders").last.click()
    expect(frames.get_by_role("group", name="selected are")).to_be_visible()
    assert [url for url in asked if "/frames?" in url] == []  # the list is not read again


def test_pause_and_go_on(stage: Stage, frames: Any) -> None:
    from playwright.sync_api import expect

    set_filter(frames, "method == 'queue.declare' && queue.startsWith('paused')")
    expect(rows(frames)).to_have_count(0)
    with connected(stage.port) as connection:
        channel = connection.channel()
        channel.queue_declare("paused 1", auto_delete=True)
        expect(rows(frames)).to_have_count(1)
        frames.get_by_role("button", name="Pause").click()
        expect(frames.get_by_role("status").filter(has_text="❚❚ paused")).to_be_visible()
        channel.queue_declare("paused 2", auto_delete=True)
        frames.wait_for_timeout(500)
        expect(rows(frames)).to_have_count(1)
        frames.get_by_role("button", name="Go on").click()
        expect(rows(frames)).to_have_count(2)
        channel.queue_delete("paused 1")
        channel.queue_delete("paused 2")


def test_a_page_is_connecting_until_it_knows_what_there_is(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    held: list[Any] = []
    page.page.route("**/api/v1/sources", lambda route: held.append(route))
    page.goto(stage.url + "frames")
    expect(page.page.get_by_role("status", name="State: connecting")).to_be_visible()
    held[0].continue_()
    expect(page.page.get_by_role("status", name="State: live")).to_be_visible()


def test_who_is_behind_is_told_how_many_rows_were_skipped(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    def say_skipped(socket: Any) -> None:
        server = socket.connect_to_server()

        def pass_on(message: str) -> None:
            batch = json.loads(message)
            socket.send(json.dumps({**batch, "skipped": 12_345} if batch["type"] == "batch" else batch))

        server.on_message(pass_on)

    page.page.route_web_socket("**/api/v1/live", say_skipped)
    page.goto(stage.url + "frames")
    expect(rows(page.page)).not_to_have_count(0)
    with connected(stage.port):
        expect(page.page.get_by_role("status").filter(has_text=re.compile(r"» behind: [\d,]+ skipped"))).to_be_visible()
        assert page.violations() == []
    expect(page.page.get_by_text(re.compile(r"[\d,]+ skipped before"))).to_be_visible()


def test_a_link_to_an_old_row_shows_what_is_around_it(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    with raw.Peer.opened(stage.port, 1) as peer:
        peer.send(raw.message(1, "nowhere", b"much") * 1_500)
        peer.declare()
    until(lambda: stage.get("sources")[0]["rows"]["next"] > 4_500, "the frames")
    page.goto(stage.url + "frames?seq=100")
    window = page.page
    selected = window.locator("[role=row][aria-selected=true]")
    expect(selected.get_by_role("gridcell").first).to_have_text("100")
    expect(selected).to_be_in_viewport()
    expect(window.get_by_role("status").filter(has_text="older rows")).to_be_visible()
    window.get_by_role("button", name="↓ Newest").click()
    expect(window.get_by_text("● live").last).to_be_visible()
    expect(rows(window).filter(has_text="queue.declare-ok").last).to_be_in_viewport()


def test_a_range_of_time_is_brushed(frames: Any) -> None:
    from playwright.sync_api import expect

    total = frames.get_by_role("grid", name="Frames")
    expect(total).to_have_attribute("aria-rowcount", re.compile(r"\d{3}"))  # of the frames that the stage waits for
    before = int(total.get_attribute("aria-rowcount") or 0)
    over_time = frames.get_by_role("img", name="Rows over time")
    expect(over_time).to_have_attribute("aria-label", re.compile(r"\d+ rows from"))
    box = box_of(over_time)
    frames.mouse.move(box["x"] + box["width"] - 2, box["y"] + 10)  # all: a part of so short a time may be empty
    frames.mouse.down()
    frames.mouse.move(box["x"], box["y"] + 10, steps=3)
    frames.mouse.up()
    expect(frames.get_by_text("◫ a range of time")).to_be_visible()
    assert "start=" in frames.url
    frames.reload()
    expect(rows(frames)).not_to_have_count(0)
    expect(frames.get_by_text("◫ a range of time")).to_be_visible()
    assert int(total.get_attribute("aria-rowcount") or 0) <= before


def test_what_is_shown_can_be_exported(stage: Stage, frames: Any, tmp_path: Path) -> None:
    from playwright.sync_api import expect

    frames.context.grant_permissions(["clipboard-read", "clipboard-write"])
    set_filter(frames, "method == 'basic.publish' && exchange == 'orders'")
    expect(frames.get_by_role("grid", name="Frames")).to_have_attribute("aria-rowcount", str(1 + 3 * 21))

    def downloaded(name: str) -> Path:
        frames.get_by_role("button", name="Export").click()
        with frames.expect_download() as download:
            frames.get_by_role("link", name=name).click()
        file = tmp_path / download.value.suggested_filename
        download.value.save_as(file)
        frames.keyboard.press("Escape")
        return file

    def copied(name: str) -> str:
        frames.get_by_role("button", name="Export").click()
        frames.get_by_role("button", name=name).click()
        expect(frames.get_by_role("status").filter(has_text="in the clipboard")).to_be_visible()
        frames.keyboard.press("Escape")
        return str(frames.evaluate("navigator.clipboard.readText()"))

    capture = downloaded("Capture (pcapng)")
    decoded = subprocess.run([*command(), "decode", "--json", capture], capture_output=True, text=True, check=True)
    methods = [json.loads(line).get("method") for line in decoded.stdout.splitlines()]
    assert methods.count("basic.publish") == 21
    assert "basic.deliver" not in methods
    lines = [json.loads(line) for line in downloaded("JSON lines").read_text().splitlines()]
    assert [line.get("method") for line in lines].count("basic.publish") == 21
    table = downloaded("CSV").read_text().splitlines()
    assert len(table) == 1 + len(lines)
    test = copied("Copy as pytest")
    compile(test, "test_copied.py", "exec")
    assert "order.new" in test
    assert "exchange: orders" in copied("Copy as rule")
    assert "filter=method" in copied("Copy a link")

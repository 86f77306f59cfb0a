"""The overview: how to connect a first client, what has changed in an hour, and charts that open what they show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.dashboard.browser.stage import OwnDashboard, Stage, box_of
from tests.dashboard.browser.traffic import connected
from tests.dashboard.browser.watched_page import NARROW, WatchedPage
from tests.dashboard.two_hours import MINUTES, START_NS, write_two_hours
from tests.real.poll import until

pytestmark = [pytest.mark.real, pytest.mark.once]  # the page is not compiled


SHIFTS = """() => {
    window.shifted = 0
    new PerformanceObserver(list => {
        for (const each of list.getEntries()) window.shifted += each.value
    }).observe({type: 'layout-shift'})
}"""
"""Program for the page that adds up how far its parts are moved, as a share of the window."""


@pytest.fixture(scope="module")
def two_hours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnDashboard]:
    """The dashboard of a recording of two hours."""
    directory = tmp_path_factory.mktemp("two-hours")
    write_two_hours(directory / "two-hours.pcapng")
    running = OwnDashboard(directory / "log", "--capture", str(directory / "two-hours.pcapng"))
    try:
        until(running.has_read, "the capture to be read")
        yield running
    finally:
        running.kill()


def is_in(region: Any, top: int, bottom: int) -> bool:
    """Whether the beginning of a region is between these lines of the window."""
    box = region.bounding_box() if region.count() else None
    return box is not None and top <= box["y"] <= bottom


def test_the_first_start_shows_how_to_connect(page: WatchedPage, tmp_path: Path) -> None:
    from playwright.sync_api import expect

    running = Stage(tmp_path)
    try:
        page.goto(running.url)
        window = page.page
        first = window.get_by_role("region", name="No traffic yet")
        expect(first).to_contain_text(f"127.0.0.1:{running.port}")
        expect(first).to_contain_text(f"amqp://guest:guest@127.0.0.1:{running.port}")
        expect(first.get_by_role("tabpanel")).to_contain_text("import pika")
        window.wait_for_timeout(2_500)  # samples come each second, and are no traffic
        expect(first).to_be_visible()
        assert page.violations() == []
        window.set_viewport_size(NARROW)
        window.emulate_media(color_scheme="dark", reduced_motion="reduce")
        assert not page.overflows()
        assert page.violations() == []
        with connected(running.port, "first") as connection:
            connection.channel()
            expect(first).to_have_count(0)
            expect(window.get_by_role("region", name="Top findings")).to_be_visible()
    finally:
        running.kill()


def test_findings_and_changes_are_above_the_fold(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    page.goto(stage.url + "overview")
    window = page.page
    for name in ("Top findings", "Now against an hour ago"):
        region = window.get_by_role("region", name=name)
        expect(region).to_be_visible()
        until(lambda found=region: window.wait_for_timeout(20) or is_in(found, 0, 500), f"{name} to be above the fold")
    assert page.violations() == []


def test_an_hour_ago_is_compared(two_hours: OwnDashboard, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    page.goto(two_hours.url + "overview")
    window = page.page
    card = window.get_by_role("region", name="Now against an hour ago")
    expect(card).to_contain_text("00:55 to 01:00")
    for row, text in (
        ("Published", "4.1"),
        ("Connections", "3"),
        ("Publish → delivery, p99", "10.0"),
        ("Findings", "new"),
    ):
        expect(card.get_by_role("row").filter(has_text=row)).to_contain_text(text)
    assert page.violations() == []
    window.set_viewport_size(NARROW)
    window.emulate_media(color_scheme="dark", reduced_motion="reduce")
    assert not page.overflows()
    assert page.violations() == []
    card.get_by_role("link", name="newcomer").click()
    expect(window.get_by_role("main")).to_have_accessible_name("Client newcomer")
    assert page.violations() == []


@pytest.mark.parametrize("width", [1280, NARROW["width"]])
def test_charts_stay_where_they_are_as_the_cards_above_them_are_filled(
    two_hours: OwnDashboard, page: WatchedPage, width: int
) -> None:
    """Clicked elements do not move: with the cards' answers held back, and with them."""
    from playwright.sync_api import expect

    window = page.page
    window.set_viewport_size({"width": width, "height": 800})
    held: list[Any] = []
    for path in ("**/overview?minutes=1", "**/changes*"):
        window.route(path, lambda route: held.append(route))
    page.goto(two_hours.url + "overview")
    place = window.get_by_role("figure").first.locator(".u-over")
    expect(window.get_by_role("status", name="State: capture")).to_be_visible()
    expect(place).to_be_attached()
    until(lambda: window.wait_for_timeout(20) or len(held) == 2, "both cards to ask")
    before = place.bounding_box()
    window.evaluate(SHIFTS)
    for each in held:
        each.continue_()
    expect(window.get_by_role("region", name="Now against an hour ago")).to_contain_text("00:55 to 01:00")
    expect(window.get_by_role("region", name="Top findings").get_by_role("table")).to_be_visible()
    assert place.bounding_box() == before
    assert window.evaluate("window.shifted") < 0.01


def test_ends_of_a_flow_have_its_latency(two_hours: OwnDashboard, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    window = page.page
    for kind, name in (("client", "shop"), ("exchange", "orders"), ("queue", "jobs"), ("client", "worker")):
        page.goto(f"{two_hours.url}{kind}?name={name}")
        for figure in ("median", "p99"):
            term = window.locator("dl > div").filter(has_text=f"Publish → delivery, {figure}")
            expect(term.first).to_contain_text("≤ 224 ms")
    page.goto(two_hours.url + "topology?as=services")
    expect(window.get_by_role("group", name="Topology:")).to_contain_text("arrives ≤ 224 ms")


def test_a_click_at_a_chart_opens_what_passed_then(two_hours: OwnDashboard, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    page.goto(two_hours.url + "overview")
    window = page.page
    chart = window.get_by_role("figure").filter(has=window.get_by_role("heading", name="Messages a second"))
    place = chart.locator(".u-over")
    box = box_of(place)
    place.click(position={"x": box["width"] * 0.5, "y": box["height"] * 0.5})
    expect(window.get_by_role("main")).to_have_accessible_name("Messages")
    asked = parse_qs(urlsplit(window.url).query)
    begin = 1_767_225_600
    assert begin + 3_300 < int(asked["start"][0]) / 1e9 < int(asked["end"][0]) / 1e9 < begin + 3_900
    rows = window.get_by_role("grid", name="Messages").locator(".sheet").get_by_role("row")
    expect(rows.filter(visible=True).first).to_contain_text("orders")
    window.go_back()
    box = box_of(place)
    window.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 20)
    window.mouse.down()
    window.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 30, steps=5)
    window.mouse.up()
    expect(window.get_by_role("main")).to_have_accessible_name("Messages")
    asked = parse_qs(urlsplit(window.url).query)
    assert int(asked["end"][0]) - int(asked["start"][0]) > 1_500 * 10**9
    window.go_back()
    chart.get_by_role("link", name="confirmed").click()
    expect(window.get_by_role("main")).to_have_accessible_name("Frames")
    expect(window.get_by_role("grid", name="Frames")).to_contain_text("basic.ack")
    assert re.search("sender", window.url)


def test_a_click_at_a_time_of_which_no_rows_are_left_opens_the_history(
    two_hours: OwnDashboard, page: WatchedPage
) -> None:
    from playwright.sync_api import expect

    window = page.page
    gone = START_NS + (MINUTES - 1) * 60 * 10**9

    def answer(route: Any) -> None:
        response = route.fetch()
        route.fulfill(json=response.json() | {"kept_since_ns": {"frames": gone, "messages": gone}})

    window.route("**/overview?minutes=1", answer)
    with window.expect_response("**/overview?minutes=1"):
        page.goto(two_hours.url + "overview")
    for title in ("Messages a second", "Methods a second"):
        chart = window.get_by_role("figure").filter(has=window.get_by_role("heading", name=title))
        place = chart.locator(".u-over")
        expect(window.get_by_role("region", name="Top findings").get_by_role("table")).to_be_visible()
        box = box_of(place)
        place.click(position={"x": box["width"] * 0.5, "y": box["height"] * 0.5})
        expect(window.get_by_role("main")).to_have_accessible_name("History")
        expect(window.get_by_role("region", name="Message").first).to_contain_text("published")
        assert "start=" in window.url
        window.go_back()
    box = box_of(place)
    place.click(position={"x": box["width"] * 0.995, "y": box["height"] * 0.5})
    expect(window.get_by_role("main")).to_have_accessible_name("Frames")
    window.unroute_all(behavior="wait")  # an answer on its way would fail the next test


def test_a_click_at_latencies_opens_their_messages(two_hours: OwnDashboard, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    page.goto(two_hours.url + "overview")
    window = page.page
    canvas = window.get_by_role("img", name=re.compile("measured; half of them"))
    expect(canvas).not_to_have_attribute("aria-label", re.compile("^0 "))
    box = box_of(canvas)
    canvas.click(position={"x": box["width"] * 0.6, "y": box["height"] * 0.4})
    expect(window.get_by_role("main")).to_have_accessible_name("Messages")
    rows = window.get_by_role("grid", name="Messages").locator(".sheet").get_by_role("row")
    expect(rows.filter(visible=True).first).to_contain_text("publish")

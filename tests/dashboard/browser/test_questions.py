"""Questions that an operator answers in at most three clicks from the overview, without a line of CEL."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
import pytest

from amqproxy.testing.local_broker import LocalBroker
from tests.dashboard.browser.clicks import Clicks
from tests.dashboard.browser.stage import OwnDashboard, Stage
from tests.dashboard.browser.traffic import connected
from tests.dashboard.browser.watched_page import WatchedPage
from tests.dashboard.conftest import CAPTURES
from tests.dashboard.two_hours import write_two_hours
from tests.real.poll import until
from tests.real.require import require

pytestmark = [pytest.mark.real, pytest.mark.once]  # the page is not compiled


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A proxy with a shop that publishes, a worker that consumes, and a queue that nobody consumes from."""
    running = Stage(tmp_path_factory.mktemp("questions"))
    try:
        with connected(running.port, "shop") as shop, connected(running.port, "worker") as worker:
            channel = shop.channel()
            channel.confirm_delivery()
            channel.exchange_declare("orders", "topic")
            for queue, key in (("jobs", "order.*"), ("forgotten", "order.#")):
                channel.queue_declare(queue)
                channel.queue_bind(queue, "orders", key)
            consumer = worker.channel()
            consumer.basic_qos(prefetch_count=5)
            consumer.basic_consume("jobs", lambda on, method, *_: on.basic_ack(method.delivery_tag))
            for number in range(10):
                properties = pika.BasicProperties(message_id=f"order-{number}")
                channel.basic_publish("orders", "order.new", json.dumps({"order": number}).encode(), properties)
                worker.process_data_events(0.05)
            channel.basic_publish("orders", "order.large", bytes(1_500_000))
            worker.process_data_events(0.2)
            with suppress(pika.exceptions.ChannelClosedByBroker):
                shop.channel().queue_declare("none", passive=True)
            until(lambda: _has_fault(running), "the dashboard to show it all")  # a search finds what is there
            yield running
    finally:
        running.kill()


def _has_fault(stage: Stage) -> bool:
    return any(each["kind"] == "channel-error" for each in stage.get("sources/0/findings")["rows"])


def go(window: Any, clicks: Clicks, screen: str) -> None:
    """To another screen, by a click in the navigation."""
    clicks.on(window.get_by_role("navigation", name="Screens").get_by_role("link", name=screen, exact=True))


def test_who_publishes_to_an_exchange_and_is_it_confirmed(busy: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    page.goto(busy.url)
    window, clicks = page.page, Clicks()
    go(window, clicks, "Topology")
    nodes = window.get_by_role("group", name="Topology:").locator("[role=button]")
    clicks.on(nodes.filter(has_text="orders").and_(window.locator(".exchange")))
    clicks.on(window.get_by_role("complementary").get_by_role("link", name="Its page"))
    published = window.get_by_role("region", name="Published by")
    expect(published.get_by_role("link", name="shop").first).to_be_visible()
    expect(published).to_contain_text("10 confirmed")
    assert clicks.count <= 3


def test_why_a_channel_was_closed(busy: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    page.goto(busy.url)
    window, clicks = page.page, Clicks()
    go(window, clicks, "Connections")
    clicks.on(window.get_by_role("row").filter(has_text="shop").get_by_role("link").first)
    errors = window.get_by_role("region", name="Closed channels and other errors")
    expect(errors).to_contain_text("channel closed by the broker")
    expect(errors).to_contain_text("404 NOT_FOUND - no queue 'none'")
    expect(errors).to_contain_text("for queue.declare")
    clicks.on(errors.get_by_role("link", name="frame"))
    expect(window.get_by_role("grid", name="Frames").locator("[aria-selected=true]")).to_contain_text("channel.close")
    assert clicks.count <= 3


def test_the_life_of_the_message_with_an_id(busy: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    page.goto(busy.url)
    window, clicks = page.page, Clicks()
    go(window, clicks, "History")
    window.get_by_label("Message id").fill("order-7")
    clicks.on(window.get_by_role("button", name="Search"))
    life = window.get_by_role("region", name=re.compile("^Message"))
    expect(life).to_have_count(1)
    for text in ("order-7", "shop", "confirmed", "worker", "jobs", "acked"):
        expect(life).to_contain_text(text)
    assert clicks.count <= 3


def test_the_queue_without_a_consumer(busy: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    page.goto(busy.url)
    window, clicks = page.page, Clicks()
    go(window, clicks, "Topology")
    nodes = window.get_by_role("group", name="Topology:").locator("[role=button].queue")
    expect(nodes.filter(has_text="no consumer")).to_have_count(1)
    expect(nodes.filter(has_text="no consumer")).to_contain_text("forgotten")
    assert clicks.count <= 3


def test_who_sends_more_than_a_megabyte(busy: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    page.goto(busy.url)
    window, clicks = page.page, Clicks()
    go(window, clicks, "Messages")
    clicks.on(window.get_by_label("Filter (CEL)"))
    clicks.on(window.get_by_role("option").filter(has_text="size > 1000000"))
    rows = window.get_by_role("grid", name="Messages").locator(".sheet").get_by_role("row").filter(visible=True)
    expect(rows.filter(has_text="order.large").filter(has_text="shop")).to_have_count(1)
    expect(rows.filter(has_text="order.new")).to_have_count(0)
    assert clicks.count <= 3


def test_what_passes_is_recorded_and_opens_in_wireshark(busy: Stage, page: WatchedPage, tmp_path: Path) -> None:
    from playwright.sync_api import expect

    tshark = require("tshark")
    page.goto(busy.url + "captures")
    window, clicks = page.page, Clicks()
    recording = window.get_by_role("region", name="Recording")
    recording.get_by_label("Directory").fill(str(tmp_path / "recordings"))
    clicks.on(recording.get_by_role("button", name="Record"))
    expect(recording).to_contain_text("● recording")
    with connected(busy.port, "recorded") as connection:
        connection.channel().queue_declare("recorded", auto_delete=True)
    clicks.on(recording.get_by_role("button", name="Stop"))
    expect(recording).to_contain_text("○ nothing is recorded")
    with window.expect_download() as download:
        clicks.on(window.get_by_role("group", name="List of captures").get_by_role("link", name="Download").first)
    assert clicks.count <= 3
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)
    # The proxy listens on a port of its own, which Wireshark has to be told.
    told = ("-d", f"tcp.port=={busy.port},amqp")
    fields = ("-T", "fields", "-e", "amqp.method.method", "-e", "amqp.method.arguments.queue")
    done = subprocess.run(
        [tshark, "-r", file, *told, "-Y", "amqp", *fields], capture_output=True, text=True, check=True
    )
    assert "recorded" in done.stdout


@pytest.fixture
def captures(tmp_path: Path) -> Iterator[OwnDashboard]:
    """A dashboard of two captures."""
    chosen = [text for name in ("blocked", "confirms") for text in ("--capture", str(CAPTURES / f"{name}.pcapng"))]
    running = OwnDashboard(tmp_path / "log", *chosen)
    try:
        yield running
    finally:
        running.kill()


def test_two_captures_are_compared(captures: OwnDashboard, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    page.goto(captures.url)
    window, clicks = page.page, Clicks()
    go(window, clicks, "Captures")
    clicks.on(window.get_by_role("row").filter(has_text="confirms").get_by_role("button", name="Compare …"))
    dialog = window.get_by_role("dialog", name="Compare confirms.pcapng")
    expect(dialog.get_by_label("With")).to_have_value(re.compile("blocked"))  # the other one
    clicks.on(dialog.get_by_role("button", name="Compare"))
    expect(dialog.get_by_role("region", name="Differences")).to_contain_text("confirm.select")
    assert clicks.count <= 3


def test_a_capture_is_replayed_and_the_difference_seen(captures: OwnDashboard, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    with LocalBroker() as broker:
        page.goto(captures.url)
        window, clicks = page.page, Clicks()
        go(window, clicks, "Captures")
        clicks.on(window.get_by_role("row").filter(has_text="blocked").get_by_role("button", name="Replay …"))
        dialog = window.get_by_role("dialog", name="Replay blocked.pcapng")
        dialog.get_by_label("To").fill(broker.url)
        clicks.on(dialog.get_by_role("button", name="Replay"))
        replay = window.get_by_role("article", name="Replay of blocked.pcapng")
        expect(replay).to_contain_text("connection.blocked: it did not come")
        assert clicks.count <= 3


def test_what_changed_in_the_last_hour(page: WatchedPage, tmp_path: Path) -> None:
    from playwright.sync_api import expect

    write_two_hours(tmp_path / "two-hours.pcapng")
    running = OwnDashboard(tmp_path / "log", "--capture", str(tmp_path / "two-hours.pcapng"))
    try:
        until(running.has_read, "the capture to be read")
        page.goto(running.url)
        window, clicks = page.page, Clicks()
        card = window.get_by_role("region", name="Now against an hour ago")
        for heading, names in (
            ("New", ["newcomer", "fresh"]),
            ("Gone", ["legacy", "old"]),
            ("Faster or slower", ["shop", "orders", "worker", "jobs"]),
            ("New kinds of findings", ["channel-error"]),
        ):
            entries = card.locator(f"h3:text-is('{heading}') + ul > li")
            expect(entries.get_by_role("link")).to_have_count(len(names))
            for name in names:
                expect(entries.get_by_role("link", name=name, exact=True)).to_be_visible()
        clicks.on(card.get_by_role("link", name="channel-error"))
        expect(window.get_by_role("grid", name="Findings")).to_contain_text("no queue 'none'")
        assert clicks.count <= 3
    finally:
        running.kill()

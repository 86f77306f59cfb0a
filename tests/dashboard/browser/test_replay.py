"""A capture, played to a broker from the page."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from amqproxy.testing.local_broker import LocalBroker
from tests.dashboard.browser.stage import OwnDashboard, Stage
from tests.dashboard.browser.watched_page import NARROW, WatchedPage
from tests.dashboard.conftest import CAPTURES
from tests.real.poll import until
from tests.real.proxy import command

pytestmark = [pytest.mark.real, pytest.mark.once]

URL = re.compile(r"http://127\.0\.0\.1:\d+/")


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """The URL of a dashboard of two captures."""
    captures = [text for name in ("blocked", "confirms") for text in ("--capture", str(CAPTURES / f"{name}.pcapng"))]
    arguments = (*command(), "dashboard", *captures, "--listen", "127.0.0.1:0")
    log = tmp_path / "log"
    with log.open("wb") as output, subprocess.Popen(arguments, stderr=output) as process:
        try:
            yield until(lambda: URL.search(log.read_text()), "the dashboard to listen")[0]
        finally:
            process.terminate()


def test_a_capture_is_replayed(url: str, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    with LocalBroker() as broker:
        page.goto(url + "captures")
        window = page.page
        window.get_by_role("row").filter(has_text="blocked").get_by_role("button", name="Replay …").click()
        dialog = window.get_by_role("dialog", name="Replay blocked.pcapng")
        expect(dialog).to_be_visible()
        expect(dialog.get_by_label("To")).to_have_value("")  # no broker by default
        dialog.get_by_label("To").fill(broker.url)
        dialog.get_by_label("Speed").select_option("max")
        expect(dialog.locator("code")).to_contain_text(f"--to {broker.url} --speed max")
        assert page.violations() == []
        dialog.get_by_role("button", name="Replay").click()
        expect(dialog).to_have_count(0)
        replay = window.get_by_role("article", name="Replay of blocked.pcapng")
        expect(replay.get_by_role("status")).to_have_text("✕ different")
        expect(replay).to_contain_text("2 differences")
        expect(replay).to_contain_text("connection.blocked: it did not come")
        latencies = replay.get_by_role("region", name="Latencies")
        expect(latencies.get_by_role("row").filter(has_text="channel.open")).to_contain_text("→")
        assert page.violations() == []
        window.set_viewport_size(NARROW)
        assert not page.overflows()


def test_commands_that_were_sent_otherwise_are_shown(page: WatchedPage, tmp_path: Path) -> None:
    from playwright.sync_api import expect

    dashboard = OwnDashboard(tmp_path / "log", "--capture", str(CAPTURES / "confirms.pcapng"))
    try:
        with LocalBroker() as broker:
            page.goto(dashboard.url + "captures")
            window = page.page
            window.get_by_role("row").filter(has_text="confirms").get_by_role("button", name="Replay …").click()
            dialog = window.get_by_role("dialog", name="Replay confirms.pcapng")
            dialog.get_by_label("To").fill(broker.url)
            dialog.get_by_label("Speed").select_option("max")
            dialog.get_by_label("Copies").fill("2")
            dialog.get_by_role("button", name="Replay").click()
            sent = window.get_by_role("article").get_by_role("region", name="Sent otherwise")
            expect(sent).to_contain_text("nowhere → nowhere.1")
            assert page.violations() == []
            window.set_viewport_size(NARROW)
            assert not page.overflows()
    finally:
        dashboard.kill()


def test_the_target_that_is_watched_is_warned_of(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    listed = {"captures": [{"path": "/x", "name": "x.pcapng", "size": 1, "changed_at": 1, "source": None}]}
    page.page.route("**/api/v1/captures", lambda route: route.fulfill(json=listed))
    page.goto(stage.url + "captures")
    page.page.get_by_role("button", name="Replay …").click()
    dialog = page.page.get_by_role("dialog", name="Replay x.pcapng")
    warning = dialog.get_by_role("alert").filter(has_text="a proxy that the dashboard watches")
    dialog.get_by_label("To").fill(f"amqp://localhost:{stage.port}")
    expect(warning).to_be_visible()
    dialog.get_by_label("To").fill("amqp://localhost:1")
    expect(warning).to_have_count(0)


def test_a_recording_is_named(page: WatchedPage, tmp_path: Path) -> None:
    from playwright.sync_api import expect

    directory = tmp_path / "recordings"
    directory.mkdir()
    for name in ("confirms", "blocked"):
        shutil.copy(CAPTURES / f"{name}.pcapng", directory)
    dashboard = OwnDashboard(tmp_path / "log", "--capture", str(directory))
    try:
        page.goto(dashboard.url + "captures")
        window = page.page
        window.get_by_role("row").filter(has_text="confirms").get_by_role("button", name="Name …").click()
        dialog = window.get_by_role("dialog", name="Name confirms.pcapng")
        name = dialog.get_by_label("Name")
        expect(name).to_have_value("confirms")
        name.fill("blocked")
        name.press("Enter")
        expect(dialog.get_by_role("alert")).to_contain_text("there is a blocked.pcapng already")
        assert page.violations() == []
        name.fill("the outage")
        name.press("Enter")
        expect(dialog).to_have_count(0)
        expect(window.get_by_role("row").filter(has_text="the outage.pcapng")).to_be_visible()
        assert {each.name for each in directory.iterdir()} == {"the outage.pcapng", "blocked.pcapng"}
    finally:
        dashboard.kill()


def test_two_captures_are_compared(url: str, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    page.goto(url + "captures")
    window = page.page
    row = window.get_by_role("row").filter(has_text="confirms")
    with window.expect_download() as download:
        row.get_by_role("link", name="Download").click()
    assert download.value.suggested_filename == "confirms.pcapng"
    row.get_by_role("button", name="Compare …").click()
    dialog = window.get_by_role("dialog", name="Compare confirms.pcapng")
    dialog.get_by_label("With").select_option("blocked.pcapng")
    dialog.get_by_role("button", name="Compare").click()
    expect(dialog.get_by_text(re.compile(r"✕ \d+ differences"))).to_be_visible()
    expect(dialog.get_by_role("region", name="Differences")).to_contain_text("confirm.select")
    assert page.violations() == []
    window.set_viewport_size(NARROW)
    assert not page.overflows()

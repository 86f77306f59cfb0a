"""The screen Analytics, over tables with known numbers; and without tables, where it says how to make some."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.dashboard.browser.stage import URL
from tests.dashboard.browser.watched_page import NARROW, WatchedPage
from tests.pipeline.known_tables import HOUR, START_NS, write_known_tables
from tests.real.poll import until
from tests.real.proxy import Program, command

pytestmark = [pytest.mark.real, pytest.mark.once]


class TablesDashboard(Program):
    """`amqproxy dashboard --tables`, which has begun to answer at `url`."""

    def __init__(self, directory: Path) -> None:
        options = ("--tables", str(directory), "--listen", "127.0.0.1:0")
        super().__init__(directory.parent / f"{directory.name}.log", *command(), "dashboard", *options)
        self.url = f"http://127.0.0.1:{self.port}/"
        try:
            until(self._answers, "the dashboard to answer")
        except BaseException:
            self.kill()
            raise

    def _listening(self) -> int:
        if self.process.poll() is not None:
            raise RuntimeError(self.log)
        found = URL.search(self.log)
        return int(found[1].rstrip("/").rpartition(":")[2]) if found else 0

    def _answers(self) -> bool:
        try:
            return bool(urlopen(f"{self.url}api/v1/analytics", timeout=60).status == 200)
        except OSError:
            return False


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TablesDashboard]:
    directory = tmp_path_factory.mktemp("analytics") / "tables"
    write_known_tables(directory)
    running = TablesDashboard(directory)
    yield running
    running.kill()


def test_known_numbers_for_everybody(known: TablesDashboard, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    page.goto(known.url + "analytics")
    window = page.page
    summary = "2026-11-23 01:00:00: 198 messages published, 198 delivered, 6 errors."
    expect(window.get_by_text(summary)).to_be_visible()
    traffic = window.get_by_role("figure").filter(has_text="Messages by minute")
    expect(traffic).to_contain_text(re.compile(r"published\s+198.*delivered\s+198.*confirmed\s+195.*acked\s+195", re.S))
    expect(window.get_by_role("figure").filter(has_text="Publish → confirm")).to_contain_text("longest 60.0 ms")
    busiest = window.get_by_role("region", name="The busiest")
    expect(busiest.get_by_role("row").nth(1)).to_contain_text(re.compile(r"orders\s*shop\s*180"))
    findings = window.get_by_role("region", name="Findings")
    expect(findings).to_contain_text(re.compile(r"poison.*no-prefetch\s*100 times, 1 connection", re.S))
    expect(window.get_by_role("region", name="Errors")).to_contain_text(
        re.compile(r"channel-closed 404.*3 times", re.S)
    )
    expect(window.get_by_role("region", name="Capacity").get_by_role("row").nth(2)).to_contain_text("17.6 KiB")
    answers = window.get_by_role("region", name="Answers")
    expect(answers.get_by_role("row").nth(2)).to_contain_text(re.compile(r"alice\s*alice's client\s*orders"))
    answers.get_by_role("button", name="As a map").click()
    expect(answers.get_by_role("button", name="queue orders.new")).to_be_visible()
    assert "as=map" in window.url
    assert page.violations() == []
    for name in ("Queue depth", "Failed logins", "Changes", "Schema drift", "Personal data", "Objectives"):
        answers.get_by_role("button", name=name).click()
    expect(answers.get_by_role("row").nth(1)).to_contain_text(re.compile(r"confirm\s*orders.*180\s*3\s*98.333 %", re.S))
    assert "ask=objectives" in window.url
    assert page.violations() == []
    window.emulate_media(color_scheme="dark", reduced_motion="reduce")
    window.set_viewport_size(NARROW)
    assert not page.overflows()
    assert page.violations() == []


def test_what_is_looked_at_is_in_the_url(known: TablesDashboard, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    page.goto(known.url + "analytics")
    window = page.page
    window.get_by_role("button", name="Hour", exact=True).click()
    expect(window.get_by_text("66 messages published")).to_be_visible()
    window.get_by_role("combobox", name="tenant").select_option("shop")
    expect(window.get_by_text("60 messages published")).to_be_visible()
    window.get_by_role("button", name="Queues").click()
    window.get_by_role("button", name="orders.new").click()
    expect(window.get_by_text(" 0 messages published, 60 delivered")).to_be_visible()
    url = window.url
    assert f"start={START_NS + 2 * HOUR}" in url
    page.goto(url)
    expect(window.get_by_text(" 0 messages published, 60 delivered")).to_be_visible()
    expect(window.get_by_role("button", name="Hour", exact=True)).to_have_attribute("aria-pressed", "true")
    window.get_by_role("button", name="All traffic").click()
    expect(window.get_by_text("60 messages published")).to_be_visible()
    window.get_by_role("combobox", name="tenant").select_option("")
    window.get_by_role("button", name="All", exact=True).click()
    anomalies = window.get_by_role("region", name="Anomalies")
    anomalies.get_by_text("9 messages/s, not 1").click()
    expect(anomalies.get_by_role("row", name="exchange")).to_contain_text("orders")
    anomalies.get_by_role("link", name="The hours around it").first.click()
    expect(window.get_by_text("180 messages published")).to_be_visible()
    assert "by=exchange&name=orders" in window.url


def test_without_tables_it_says_how_to_make_some(tmp_path: Path, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    running = TablesDashboard(tmp_path / "none")
    try:
        page.goto(running.url + "analytics")
        expect(page.page.get_by_text(f"amqproxy pipeline run --tables {tmp_path / 'none'} captures/")).to_be_visible()
        assert page.violations() == []
    finally:
        running.kill()

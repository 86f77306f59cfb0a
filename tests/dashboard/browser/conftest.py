"""Chromium, a page of it that complains of nothing, and what there is to be seen."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dashboard.browser.stage import Stage
from tests.dashboard.browser.traffic import one_of_everything
from tests.dashboard.browser.watched_page import WatchedPage
from tests.real.poll import until
from tests.real.require import require, require_module

STATIC = Path(__file__).parents[3] / "dashboard" / "static" / "index.html"


@pytest.fixture(scope="module")
def chromium() -> Iterator[object]:
    """Debian's, which is asked by Playwright; that without windows, which takes 0.6 of the processor time.

    No longer than for a module: while it is there, asyncio takes this thread for one in which a loop runs, so that no
    other test could start one.
    """
    api = require_module("playwright.sync_api", package="playwright")
    program = require("chromium-headless-shell")
    if not STATIC.is_file():
        reason = "the dashboard's page is not built: make compile"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    with api.sync_playwright() as playwright:
        # No sandbox: in CI we are root, and what it shows is ours.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        api.expect.set_options(timeout=30_000)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: object) -> Iterator[WatchedPage]:
    """A window of a browser's own, 1280 wide."""
    with WatchedPage.opened(chromium) as page:
        yield page


def _has_everything(stage: Stage) -> bool:
    """Whether the dashboard shows all that `one_of_everything` does, so that no answer about it grows later."""
    flows = stage.get("sources/0/flows")
    return (
        any(each["kind"] == "channel-error" for each in stage.get("sources/0/findings")["rows"])
        and [each["is_open"] for each in stage.get("sources/0/connections")["connections"]].count(False) == 1
        and sum(each["messages"] for each in flows["published"]) == 21
        and any(each["outcomes"].get("acked") == 10 for each in flows["delivered"])
    )


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A proxy with a dashboard, of which one client has done a bit of everything; another is still there."""
    running = Stage(tmp_path_factory.mktemp("stage"))
    try:
        with one_of_everything(running.port):
            until(lambda: _has_everything(running), "the dashboard to show it all")
            yield running
    finally:
        running.kill()

"""Pools on the page: connections that clients share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.dashboard.browser.stage import Stage
from tests.dashboard.browser.traffic import connected
from tests.dashboard.browser.watched_page import NARROW, WatchedPage
from tests.real.own import OwnBroker

pytestmark = [pytest.mark.real, pytest.mark.once]  # the page is not compiled


@pytest.fixture
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A proxy whose clients share connections."""
    broker = OwnBroker(tmp_path_factory.mktemp("broker"))
    running = Stage(tmp_path_factory.mktemp("pool"), upstream={"address": f"127.0.0.1:{broker.port}", "pool": {}})
    try:
        yield running
    finally:
        running.kill()
        broker.kill()


def test_pools_are_seen_with_their_clients(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    window = page.page
    with ExitStack() as clients:
        for _ in range(3):
            clients.enter_context(connected(stage.port)).channel().confirm_delivery()
        page.goto(stage.url + "upstreams")
        card = window.get_by_role("region", name="Pools")
        row = card.get_by_role("row").filter(has_text="guest")
        expect(row.get_by_role("cell").nth(4)).to_have_text("1")
        expect(row.get_by_role("cell").nth(5)).to_have_text("3")
        expect(row.get_by_role("cell").nth(7)).to_have_text("3")
        assert page.violations() == []
        window.set_viewport_size(NARROW)
        assert not page.overflows()
    expect(row.get_by_role("cell").nth(5)).to_have_text("0")

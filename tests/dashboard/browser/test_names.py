"""Pages of clients, exchanges, queues and users, and the map of services, with real clients."""

from __future__ import annotations

import pytest

from tests.dashboard.browser.stage import Stage
from tests.dashboard.browser.watched_page import NARROW, WatchedPage

pytestmark = [pytest.mark.real, pytest.mark.once]  # the page is not compiled


def test_each_name_leads_to_its_page(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    [flow, *_] = [each for each in stage.get("sources/0/flows")["published"] if each["exchange"]]
    page.goto(stage.url + "topology?as=list")
    window = page.page
    main = window.get_by_role("main")
    window.get_by_role("group", name="Topology").get_by_role("link", name=flow["exchange"], exact=True).first.click()
    expect(main).to_have_accessible_name(f"Exchange {flow['exchange']}")
    main.get_by_role("link", name=flow["client"], exact=True).first.click()
    expect(main).to_have_accessible_name(f"Client {flow['client']}")
    assert "/client?name=" in window.url
    main.get_by_role("link", name=flow["user"], exact=True).first.click()
    expect(main).to_have_accessible_name(f"User {flow['user']}")
    window.go_back()
    expect(main.get_by_role("group", name="Published").get_by_role("link", name=flow["exchange"]).first).to_be_visible()
    window.reload()  # its address is in the URL
    expect(main).to_have_accessible_name(f"Client {flow['client']}")


@pytest.mark.parametrize("kind", ["client", "exchange", "queue", "user"])
def test_a_page(kind: str, stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    [flow, *_] = [each for each in stage.get("sources/0/flows")["delivered"] if each["queue"]]
    page.goto(f"{stage.url}{kind}?name={flow[kind]}")
    window = page.page
    expect(window.get_by_role("region", name="Delivered", exact=True)).to_be_visible()
    assert page.violations() == []
    window.emulate_media(color_scheme="dark", reduced_motion="reduce")
    window.set_viewport_size(NARROW)
    assert not page.overflows()
    assert page.violations() == []


def test_a_name_that_is_not_known_says_so(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    page.goto(stage.url + "queue?name=nothing")
    expect(page.page.get_by_text("Nothing is known of this queue")).to_be_visible()
    assert page.violations() == []


def test_the_map_of_services_has_clients_at_both_ends(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    page.goto(stage.url + "topology")
    window = page.page
    window.get_by_role("button", name="Services").click()
    nodes = window.get_by_role("group", name="Topology:").locator("[role=button]")
    expect(nodes.and_(window.locator(".publisher")).first).to_be_visible()
    expect(nodes.and_(window.locator(".consumer")).first).to_be_visible()
    assert "as=services" in window.url
    assert page.violations() == []

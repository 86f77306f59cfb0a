"""Every screen, in front of a proxy with real clients: it is there, for everybody, on every width, light and dark."""

from __future__ import annotations

import pytest

from tests.dashboard.browser.screens import SCREENS
from tests.dashboard.browser.stage import Stage
from tests.dashboard.browser.watched_page import NARROW, WatchedPage

pytestmark = [pytest.mark.real, pytest.mark.once]  # the page is not compiled


@pytest.mark.parametrize("screen", SCREENS)
def test_a_screen(screen: str, stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    page.goto(stage.url + screen)
    window = page.page
    expect(window.get_by_role("status", name="State: live")).to_be_visible()
    expect(window.get_by_role("main")).to_have_accessible_name(screen.capitalize())
    expect(
        window.get_by_role("navigation", name="Screens").get_by_role("link", name=screen.capitalize())
    ).to_be_visible()
    window.wait_for_timeout(500)  # it asks the server for what it shows
    assert page.violations() == []
    window.emulate_media(color_scheme="dark", reduced_motion="reduce")
    window.set_viewport_size(NARROW)
    assert not page.overflows()
    assert page.violations() == []


def test_the_first_page_is_the_overview_and_all_others_are_a_click_away(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    page.goto(stage.url)
    window = page.page
    for screen in SCREENS:
        window.get_by_role("navigation", name="Screens").get_by_role("link", name=screen.capitalize()).click()
        expect(window.get_by_role("main")).to_have_accessible_name(screen.capitalize())
        assert window.url.startswith(stage.url + screen)
    window.go_back()
    expect(window.get_by_role("main")).to_have_accessible_name(SCREENS[-2].capitalize())


def test_keys_are_listed_and_work(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    page.goto(stage.url + "frames")
    window = page.page
    expect(window.get_by_role("grid", name="Frames")).to_be_visible()
    window.keyboard.press("?")
    expect(window.get_by_role("dialog")).to_be_visible()
    assert page.violations() == []
    window.keyboard.press("Escape")
    expect(window.get_by_role("dialog")).to_have_count(0)
    window.keyboard.press("/")
    expect(window.get_by_label("Filter (CEL)")).to_be_focused()
    window.keyboard.press("Escape")
    window.keyboard.press("g")
    window.keyboard.press("m")
    expect(window.get_by_role("main")).to_have_accessible_name("Messages")


def topology_of(exchanges: int, queues: int) -> list[dict[str, object]]:
    """As the API lists it: queues in turn bound to exchanges, each with a consumer."""
    common = {"vhost": "/", "state": "declared"}
    items: list[dict[str, object]] = [
        {**common, "kind": "exchange", "name": f"exchange {each}", "type": "topic"} for each in range(exchanges)
    ]
    for each in range(queues):
        name, exchange = f"queue {each}", f"exchange {each % exchanges}"
        items.append({**common, "kind": "queue", "name": name, "arguments": {}})
        items.append(
            {
                **common,
                "kind": "binding",
                "source": exchange,
                "destination": name,
                "destination_type": "queue",
                "routing_key": f"key.{each}",
            }
        )
        items.append(
            {
                **common,
                "kind": "consumer",
                "queue": name,
                "consumer_tag": "c",
                "session": each,
                "name": f"worker {each}",
            }
        )
    return items


@pytest.mark.parametrize(("exchanges", "queues", "folded"), [(2, 3, 0), (20, 240, 40)])
def test_a_topology_is_in_view_and_can_be_unfolded(
    exchanges: int, queues: int, folded: int, stage: Stage, page: WatchedPage
) -> None:
    """Large ones are folded first; of those that are not, the beginning is in view, and all of it on demand."""
    from playwright.sync_api import expect

    items = topology_of(exchanges, queues)
    page.page.route("**/api/v1/sources/0/topology", lambda route: route.fulfill(json={"topology": items}))
    flows = {"seconds": 0, "is_complete": True, "published": [], "delivered": []}
    page.page.route("**/api/v1/sources/0/flows", lambda route: route.fulfill(json=flows))
    page.goto(stage.url + "topology")
    window = page.page
    nodes = window.get_by_role("group", name="Topology:").locator("[role=button]")
    total = exchanges + 2 * queues
    expect(nodes).to_have_count(folded or total)
    expect(nodes.filter(has_text="exchange 0")).to_be_in_viewport(ratio=1)
    if folded:
        window.get_by_role("button", name="Unfold").click()
        expect(nodes).to_have_count(total)
    window.get_by_role("button", name="Fit").click()
    expect(nodes.last).to_be_in_viewport(ratio=1)
    nodes.first.focus()
    window.keyboard.press("Enter")
    expect(window.get_by_role("complementary")).to_contain_text("exchange 0 → queue 0 key.0")
    assert page.violations() == []

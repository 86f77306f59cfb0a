"""The Broker screens: queues, exchanges, policies and users of the integrated broker, as they are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.dashboard.browser.broker_stage import MARKUP, furnish
from tests.dashboard.browser.stage import Stage
from tests.dashboard.browser.traffic import connected
from tests.dashboard.browser.watched_page import NARROW, WatchedPage

pytestmark = [pytest.mark.real, pytest.mark.once]  # the page is not compiled


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    running = Stage(tmp_path_factory.mktemp("broker"))
    try:
        furnish(running)
        yield running
    finally:
        running.kill()


def test_queues_are_searched_sorted_and_opened(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    page.goto(stage.url + "broker")
    window = page.page
    table = window.get_by_role("group", name="Queues", exact=True)
    row = table.get_by_role("row").filter(has=window.get_by_role("button", name="dead", exact=True))
    expect(row).to_contain_text("6")
    expect(window.get_by_role("group", name="Pages of queues")).to_contain_text("1 to 6 of 6 queues")
    expect(row.get_by_role("cell").nth(7)).to_have_text("0")  # a rate, after the second look
    table.get_by_role("button", name="Ready").click()
    expect(table.get_by_role("row").nth(1)).to_contain_text("dead")
    assert "sort=-Ready" in window.url
    window.get_by_label("Search queues").fill("ORD")
    expect(window.get_by_role("group", name="Pages of queues")).to_contain_text("1 to 1 of 1 queues, of 6")
    table.get_by_role("button", name="orders").click()
    detail = window.get_by_role("region", name="Queue orders")
    settings = detail.get_by_role("group", name="Settings in force").get_by_role("row")
    expect(settings.filter(has_text="max-length")).to_contain_text("argument")
    expect(settings.filter(has_text="dead-letter-exchange")).to_contain_text("rejected, expired and dropped")
    expect(detail.get_by_role("group", name="Bindings").get_by_role("row").filter(has_text="order.*")).to_be_visible()
    assert page.violations() == []
    window.emulate_media(color_scheme="dark", reduced_motion="reduce")
    window.set_viewport_size(NARROW)
    assert not page.overflows()
    assert page.violations() == []
    detail.get_by_role("button", name="Close the queue").click()
    expect(detail).to_have_count(0)


def test_consumers_and_waiting_messages_of_a_queue_are_shown(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    with connected(stage.port) as connection:
        channel = connection.channel()
        channel.queue_declare("consumed", exclusive=True)
        channel.basic_qos(prefetch_count=7)
        channel.basic_consume("consumed", lambda *_: None, consumer_tag="worker")
        page.goto(stage.url + "broker?queue=consumed&vhost=%2F")
        window = page.page
        row = window.get_by_role("group", name="Consumers").get_by_role("row").filter(has_text="worker")
        expect(row).to_contain_text("7")
        window.goto(stage.url + "broker?queue=dead&vhost=%2F")
        detail = window.get_by_role("region", name="Queue dead")
        expect(detail.locator("summary")).to_have_count(6)
        detail.locator("summary").first.click()
        expect(detail.locator("details[open]")).to_contain_text("x-death")


@pytest.mark.parametrize("tab", ["exchanges", "policies", "users"])
def test_a_list(tab: str, stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    page.goto(stage.url + "broker")
    window = page.page
    window.get_by_role("group", name="Shown").get_by_role("button", name=tab.capitalize()).click()
    expect(window.get_by_role("group", name=f"Pages of {tab}")).to_be_visible()
    if tab == "exchanges":
        window.get_by_label("Search exchanges").fill("orders")
        expect(window.get_by_role("group", name="Exchanges", exact=True).get_by_role("row")).to_have_count(2)
    elif tab == "users":
        expect(window.get_by_role("group", name="Permissions", exact=True)).to_contain_text("guest")
    assert page.violations() == []
    window.emulate_media(color_scheme="dark", reduced_motion="reduce")
    window.set_viewport_size(NARROW)
    assert not page.overflows()
    assert page.violations() == []


def test_names_that_are_markup_are_only_texts(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    page.goto(stage.url + "broker")
    window = page.page
    window.get_by_role("button", name=MARKUP, exact=True).click()
    detail = window.get_by_role("region", name=f"Queue {MARKUP}")
    expect(detail.get_by_role("group", name="Bindings").get_by_role("row")).to_have_count(3)
    expect(detail.get_by_role("group", name="Settings in force")).to_contain_text(MARKUP)
    detail.locator("summary").click()
    expect(detail.locator("pre")).to_have_text(MARKUP)
    window.get_by_role("group", name="Shown").get_by_role("button", name="Exchanges").click()
    expect(window.get_by_role("group", name="Exchanges", exact=True)).to_contain_text(MARKUP)
    assert window.evaluate("window.hurt") is None
    assert window.locator("img[src=x]").count() == 0


def test_a_proxy_of_another_broker_says_that_it_has_none(stage: Stage, page: WatchedPage) -> None:
    """The proxy says which requests it answers."""
    from playwright.sync_api import expect

    sources = stage.get("sources")
    for each in sources:
        each["can"] = [name for name in each["can"] if not name.startswith("broker")]
    page.page.route("**/api/v1/sources", lambda route: route.fulfill(json=sources))
    page.page.route_web_socket("**/api/v1/live", lambda socket: None)
    page.goto(stage.url + "broker")
    expect(page.page.get_by_role("region", name="No integrated broker")).to_be_visible()
    assert page.violations() == []

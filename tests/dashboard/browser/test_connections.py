"""The list of connections, the page of one, and the names of clients in the lists of rows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dashboard.browser.stage import Stage
from tests.dashboard.browser.watched_page import NARROW, WatchedPage

pytestmark = [pytest.mark.real, pytest.mark.once]  # the page is not compiled


def test_open_ones_are_listed_and_closed_ones_on_demand(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    listed: list[dict[str, Any]] = stage.get("sources/0/connections")["connections"]
    page.goto(stage.url + "connections")
    window = page.page
    rows = window.get_by_role("group", name="Connections").locator("tbody").get_by_role("row")
    expect(rows).to_have_count(sum(each["is_open"] for each in listed))
    window.get_by_role("button", name="Closed ones too").click()
    expect(rows).to_have_count(len(listed))
    assert "closed=1" in window.url
    assert page.violations() == []


def test_its_order_is_in_the_url(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    page.goto(stage.url + "connections?closed=1&sort=-No.")
    window = page.page
    head = window.get_by_role("columnheader", name="No.")
    expect(head).to_have_attribute("aria-sort", "descending")
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "ascending")
    assert "sort=No." in window.url


def test_one_has_its_errors_findings_and_folded_capabilities(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    [error, *_] = [
        each
        for flow in stage.get("sources/0/flows")["published"]
        for each in stage.get(f"sources/0/subjects/user?name={flow['user']}")["errors"]
        if each["what"] == "channel closed"
    ]
    page.goto(f"{stage.url}connections/{error['stream']}")
    window = page.page
    expect(window.get_by_role("region", name="Closed channels and other errors")).to_contain_text(str(error["code"]))
    expect(window.get_by_role("region", name="Findings")).to_be_visible()
    capabilities = window.get_by_text("What the broker says of itself")
    expect(capabilities).to_be_visible()
    table = window.locator("details").filter(has=capabilities).get_by_role("table")
    expect(table).to_be_hidden()
    capabilities.click()
    expect(table).to_be_visible()
    assert page.violations() == []
    window.set_viewport_size(NARROW)
    assert not page.overflows()


@pytest.mark.parametrize("screen", ["frames", "messages", "findings"])
def test_rows_name_their_client_and_their_details_link_to_it(screen: str, stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    row = next(each for each in reversed(stage.get(f"sources/0/{screen}")["rows"]) if each["stream"] >= 0)
    [name, _] = stage.get(f"sources/0/connections/clients?sessions={row['stream']}")["clients"][str(row["stream"])]
    page.goto(f"{stage.url}{screen}?seq={row['seq']}")
    window = page.page
    expect(window.get_by_role("grid").locator(".selected")).to_contain_text(name)
    details = window.get_by_role("region", name="Details")
    expect(details.get_by_role("link", name=f"#{row['stream']}", exact=True).first).to_be_visible()
    assert page.violations() == []
    details.get_by_role("link", name=name, exact=True).first.click()
    expect(window.get_by_role("main")).to_have_accessible_name(f"Client {name}")

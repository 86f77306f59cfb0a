"""Changes on the Broker screens: each is asked for in a dialog, and made by a user of the broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.dashboard.browser.broker_stage import MARKUP, furnish, log_in, queue_of
from tests.dashboard.browser.stage import Stage
from tests.dashboard.browser.watched_page import NARROW, WatchedPage
from tests.real.poll import until

pytestmark = [pytest.mark.real, pytest.mark.once]  # the page is not compiled


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    running = Stage(tmp_path_factory.mktemp("broker"))
    try:
        furnish(running)
        yield running
    finally:
        running.kill()


def save(window: Any, button: str, **fields: str) -> None:
    """Fill in the open dialog, and press its button."""
    from playwright.sync_api import expect

    dialog = window.get_by_role("dialog")
    for label, value in fields.items():
        dialog.get_by_label(label.replace("_", " "), exact=False).first.fill(value)
    dialog.get_by_role("button", name=button, exact=True).click()
    expect(dialog).to_have_count(0)


def test_nothing_can_be_changed_without_a_login(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    page.goto(stage.url + "broker?queue=orders&vhost=%2F")
    window = page.page
    expect(window.get_by_role("region", name="Queue orders").get_by_role("group", name="Bindings")).to_be_visible()
    expect(window.get_by_role("button", name="Purge …")).to_have_count(0)
    window.get_by_role("button", name="Log in to the broker …").click()
    dialog = window.get_by_role("dialog", name="Log in to the broker")
    dialog.get_by_label("User").fill("guest")
    dialog.get_by_label("Password").fill("wrong")
    dialog.get_by_role("button", name="Log in").click()
    expect(dialog.get_by_role("alert")).to_contain_text("refuses this user or password")
    assert page.violations() == []
    dialog.get_by_label("Password").fill("guest")
    window.keyboard.press("Enter")
    expect(window.get_by_text("user guest (administrator)")).to_be_visible()
    window.reload()
    expect(window.get_by_role("button", name="Purge …")).to_be_visible()
    assert "guest" not in window.url
    window.get_by_role("button", name="Log out of the broker").click()
    expect(window.get_by_role("button", name="Purge …")).to_have_count(0)


def test_a_queue_is_declared_bound_filled_purged_and_deleted(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    page.goto(stage.url + "broker")
    window = page.page
    log_in(window)
    window.get_by_role("button", name="Declare a queue …").click()
    dialog = window.get_by_role("dialog", name="Declare a queue")
    assert page.violations() == []
    dialog.get_by_label("Arguments, as JSON").fill("[1]")
    dialog.get_by_label("Name").fill(f"new {MARKUP}")
    dialog.get_by_role("button", name="Declare it").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Arguments, as JSON: not an object")
    save(window, "Declare it", Arguments='{"x-max-length": 10}')
    window.get_by_role("button", name=f"new {MARKUP}", exact=True).click()
    detail = window.get_by_role("region", name=f"Queue new {MARKUP}")
    expect(detail.get_by_role("group", name="Settings in force")).to_contain_text("max-length")
    detail.get_by_role("button", name="Bind …").click()
    save(window, "Bind it", Exchange="orders", Routing_key="new.#")
    row = detail.get_by_role("group", name="Bindings").get_by_role("row").filter(has_text="new.#")
    expect(row).to_be_visible()
    detail.get_by_role("button", name="Publish …").click()
    save(window, "Publish it", Exchange="orders", Routing_key="new.one", Body=MARKUP)
    expect(detail.locator("summary")).to_have_count(1)
    row.get_by_role("button", name="Unbind …").click()
    save(window, "Unbind it")
    expect(row).to_have_count(0)
    detail.get_by_role("button", name="Publish …").click()
    dialog = window.get_by_role("dialog", name="Publish a message")
    dialog.get_by_label("Exchange").fill("orders")
    dialog.get_by_label("Routing key").fill("nobody")
    dialog.get_by_role("button", name="Publish it").click()
    expect(dialog.get_by_role("alert")).to_contain_text("No queue got it")
    dialog.get_by_role("button", name="Cancel").click()
    detail.get_by_role("button", name="Purge …").click()
    expect(window.get_by_role("dialog")).to_contain_text("1 messages that wait are lost")
    save(window, "Purge it")
    expect(detail.get_by_text("Nothing is ready in it.")).to_be_visible()
    detail.get_by_role("button", name="Delete …").click()
    save(window, "Delete it")
    expect(detail).to_have_count(0)
    assert window.evaluate("window.hurt") is None


def test_what_a_policy_would_apply_to_is_shown_before_it_is_saved(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    page.goto(stage.url + "broker?tab=policies")
    window = page.page
    log_in(window)
    window.get_by_role("button", name="Set a policy …").click()
    dialog = window.get_by_role("dialog", name="Set a policy")
    dialog.get_by_label("Name", exact=True).fill("short")
    dialog.get_by_label("Pattern").fill("^(dead|moved)$")
    dialog.get_by_label("Applies to").select_option("queues")
    reach = dialog.get_by_role("region", name="What it would apply to")
    expect(reach).to_contain_text("2 objects: gets what it sets")
    expect(reach.get_by_role("listitem")).to_have_text(["queue dead", "queue moved"])
    assert page.violations() == []
    window.set_viewport_size(NARROW)
    assert not page.overflows()
    dialog.get_by_label("Definition, as JSON").fill('{"max-length": 50}')
    dialog.get_by_role("button", name="Save it").click()
    row = window.get_by_role("group", name="policies", exact=True).get_by_role("row").filter(has_text="short")
    expect(row).to_contain_text("max-length = 50")
    assert queue_of(stage, "dead")["policy"] == "short"
    row.get_by_role("button", name="Edit …").click()
    dialog = window.get_by_role("dialog", name="Edit policy short")
    dialog.get_by_label("Pattern").fill("^(dead|orders)$")
    reach = dialog.get_by_role("region", name="What it would apply to")
    expect(reach).to_contain_text("1 object: no longer has it")
    dialog.get_by_role("button", name="Cancel").click()
    row.get_by_role("button", name="Remove …").click()
    save(window, "Remove it")
    expect(row).to_have_count(0)


def test_a_user_is_added_with_permissions_and_deleted(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    page.goto(stage.url + "broker?tab=users")
    window = page.page
    log_in(window)
    window.get_by_role("button", name="Add a user …").click()
    save(window, "Save it", Name=MARKUP, Password="secret", Tags="monitoring")
    users = window.get_by_role("group", name="Users", exact=True).get_by_role("row").filter(has_text=MARKUP)
    expect(users).to_contain_text("monitoring")
    window.get_by_role("button", name="Give permissions …").click()
    save(window, "Save them", User=MARKUP, May_declare="^mine")
    row = window.get_by_role("group", name="Permissions", exact=True).get_by_role("row").filter(has_text=MARKUP)
    expect(row).to_contain_text("^mine")
    users.get_by_role("button", name="Delete …").click()
    save(window, "Delete it")
    expect(users).to_have_count(0)
    expect(row).to_have_count(0)
    assert window.evaluate("window.hurt") is None


def test_an_exchange_is_declared_and_deleted(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    page.goto(stage.url + "broker?tab=exchanges&words=fresh")
    window = page.page
    log_in(window)
    window.get_by_role("button", name="Declare an exchange …").click()
    save(window, "Declare it", Name="fresh")
    row = window.get_by_role("group", name="Exchanges", exact=True).get_by_role("row").filter(has_text="fresh")
    expect(row).to_contain_text("topic")
    row.get_by_role("button", name="Delete …").click()
    save(window, "Delete it")
    expect(row).to_have_count(0)
    until(lambda: not stage.get("sources/0/broker/objects?kind=exchanges&words=fresh")["objects"], "it to be gone")

"""The workbench on the Broker screen: look, dry run, bring back, edit, take out, at our broker and at another one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from amqproxy.dashboard.workbench_runs import AUDIT
from tests.dashboard.browser.broker_stage import MARKUP, furnish, log_in, queue_of
from tests.dashboard.browser.stage import Stage
from tests.dashboard.browser.watched_page import NARROW, WatchedPage

pytestmark = [pytest.mark.real, pytest.mark.once]  # the page is not compiled


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    directory = tmp_path_factory.mktemp("workbench")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(AUDIT, str(directory / "audit.jsonl"))
        running = Stage(directory)
    try:
        furnish(running)
        yield running
    finally:
        running.kill()


def newest(window: Any, title: str) -> Any:
    """Return the newest run of a title."""
    return window.get_by_role("region", name="Runs").get_by_role("article", name=title).first


def choose(window: Any, title: str) -> None:
    window.get_by_role("combobox", name="Do").select_option(label=title)


def test_messages_are_looked_at_and_one_is_edited(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    page.goto(stage.url + "broker?queue=dead&vhost=%2F")
    window = page.page
    log_in(window)
    window.get_by_role("button", name="Workbench").last.click()
    said = window.get_by_role("region", name="What a run does to this queue")
    expect(said).to_contain_text("classic queue, 6 messages, 0 consumers")
    expect(said).to_contain_text("as redelivered")
    expect(said).to_contain_text("back in their old places")
    window.get_by_label("Only where").fill("headers.tenant ==")
    window.get_by_role("button", name="Look", exact=True).click()
    expect(window.get_by_role("region", name="Workbench").get_by_role("alert")).to_contain_text("✕")
    window.get_by_label("Only where").fill("headers.tenant == 'acme'")
    window.get_by_role("button", name="Look", exact=True).click()
    run = newest(window, "Look")
    expect(run.locator("details")).to_have_count(3)
    expect(run).to_contain_text("3 shown, 6 of 6 looked at")
    run.locator("summary").first.click()
    expect(run.locator("pre").first).to_contain_text('"order": 1')
    assert page.violations() == []
    run.get_by_role("button", name="Edit …").first.click()
    dialog = window.get_by_role("dialog", name="Edit message 1")
    expect(dialog.get_by_label("Send it to where it died first")).to_be_checked()
    dialog.get_by_label("Body").fill(f'{{"order": "{MARKUP[2:7]}"}}')
    dialog.get_by_role("button", name="Show what changes").click()
    expect(dialog.get_by_role("table")).to_contain_text('-{"order": 1}')
    expect(dialog.get_by_role("status")).to_contain_text("1 would be edited")
    assert queue_of(stage, "dead")["ready"] == 6
    assert page.violations() == []
    dialog.get_by_role("button", name="Send it").click()
    expect(dialog.get_by_role("status")).to_contain_text("1 edited")
    assert queue_of(stage, "orders")["ready"] == 1
    dialog.get_by_role("button", name="Close").last.click()
    expect(newest(window, "Edit, and send again")).to_contain_text("done")


def test_dead_letters_are_brought_back_after_a_dry_run(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    before, there = queue_of(stage, "dead")["ready"], queue_of(stage, "orders")["ready"]
    page.goto(stage.url + "broker?tab=workbench&queue=dead&vhost=%2F")
    window = page.page
    log_in(window)
    choose(window, "Bring dead letters back")
    window.get_by_label("Only where").fill("headers.tenant == 'zeta'")
    window.get_by_label("At most").fill("")
    window.get_by_role("button", name="Dry run: say what would happen").click()
    run = newest(window, "Bring dead letters back")
    expect(run).to_contain_text("3 would be brought back")
    expect(run).to_contain_text("exchange 'orders', routing key 'order.0'")
    assert queue_of(stage, "dead")["ready"] == before
    window.get_by_role("button", name="Bring dead letters back", exact=True).click()
    run = newest(window, "Bring dead letters back")
    expect(run).to_contain_text("3 brought back")
    assert (queue_of(stage, "dead")["ready"], queue_of(stage, "orders")["ready"]) == (before - 3, there + 3)
    window.emulate_media(color_scheme="dark", reduced_motion="reduce")
    window.set_viewport_size(NARROW)
    assert not page.overflows()
    assert page.violations() == []
    window.goto(stage.url + "broker")
    window.goto(stage.url + "broker?tab=workbench")  # the runs are still there
    expect(newest(window, "Bring dead letters back")).to_contain_text("3 brought back")


def test_messages_are_moved_edited_together_and_taken_out(stage: Stage, page: WatchedPage, tmp_path: Path) -> None:
    from playwright.sync_api import expect

    page.goto(stage.url + "broker?tab=workbench&queue=quorum&vhost=%2F")
    window = page.page
    log_in(window)
    expect(window.get_by_role("region", name="What a run does to this queue")).to_contain_text("delivery limit")
    choose(window, "Edit, and send again")
    window.get_by_label("Headers to set, as JSON").fill('{"again": true}')
    window.get_by_role("button", name="Edit, and send again", exact=True).click()
    run = newest(window, "Edit, and send again")
    expect(run).to_contain_text("3 edited")
    expect(run.get_by_role("table", name="Changes of message 0")).to_contain_text("headers.again")
    choose(window, "Move to a queue or an exchange")
    window.get_by_label("At most").fill("1")
    window.get_by_label("Target queue").fill("nowhere")
    window.get_by_role("button", name="Move to a queue or an exchange", exact=True).click()
    expect(newest(window, "Move to a queue or an exchange")).to_contain_text("the target queue cannot be used")
    window.get_by_label("Target queue").fill("moved")
    window.get_by_role("button", name="Move to a queue or an exchange", exact=True).click()
    expect(newest(window, "Move to a queue or an exchange")).to_contain_text("1 moved")
    choose(window, "Take out into a file")
    window.get_by_label("At most").fill("")
    window.get_by_role("button", name="Take out into a file", exact=True).click()
    run = newest(window, "Take out into a file")
    with window.expect_download() as found:
        run.get_by_role("link", name=re.compile(r"^Download messages-\d+-[0-9a-f]{8}\.jsonl$")).click()
    path = tmp_path / "messages.jsonl"
    found.value.save_as(path)
    assert len(path.read_text().splitlines()) == 2
    assert (queue_of(stage, "quorum")["ready"], queue_of(stage, "moved")["ready"]) == (0, 1)


def test_messages_that_are_markup_are_only_texts(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    page.goto(stage.url + "broker?tab=workbench")
    window = page.page
    log_in(window)
    window.get_by_label("Queue", exact=True).fill(MARKUP)
    window.get_by_role("button", name="Choose it").click()
    window.get_by_role("button", name="Look", exact=True).click()
    run = newest(window, "Look")
    run.locator("summary").click()
    expect(run.locator("pre")).to_have_text(MARKUP)
    expect(run).to_contain_text(MARKUP)
    run.get_by_role("button", name="Edit …").click()
    dialog = window.get_by_role("dialog")
    dialog.get_by_label("Body").fill(MARKUP * 2)
    dialog.get_by_role("button", name="Show what changes").click()
    expect(dialog.get_by_role("table")).to_contain_text(MARKUP * 2)
    assert window.evaluate("window.hurt") is None
    assert window.locator("img[src=x]").count() == 0


def test_another_broker_is_reached_by_its_address(stage: Stage, page: WatchedPage, tmp_path: Path) -> None:
    """A proxy in front of another broker; that of another test stands in for it."""
    from playwright.sync_api import expect

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(AUDIT, str(tmp_path / "audit.jsonl"))
        running = Stage(tmp_path, upstream={"address": f"127.0.0.1:{stage.port}"})
    try:
        page.goto(running.url + "broker")
        window = page.page
        window.get_by_role("button", name="Log in to the broker …").click()
        dialog = window.get_by_role("dialog", name="Log in to the broker")
        expect(dialog.get_by_label("Address for the workbench")).to_have_value(f"127.0.0.1:{running.port}")
        dialog.get_by_label("User").fill("guest")
        dialog.get_by_label("Password").fill("guest")
        dialog.get_by_role("button", name="Log in").click()
        window.get_by_label("Queue", exact=True).fill("moved")
        window.get_by_label("Type, if no API says it").select_option("classic")
        window.get_by_role("button", name="Choose it").click()
        expect(window.get_by_role("region", name="What a run does to this queue")).to_contain_text("classic queue")
        window.get_by_role("button", name="Look", exact=True).click()
        expect(newest(window, "Look")).to_contain_text("looked at")
        assert page.violations() == []
    finally:
        running.kill()

"""The screen of findings, with real clients: by kind, muted, searched, and with the commands that show them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.dashboard.browser.stage import Stage
from tests.dashboard.browser.watched_page import NARROW, WatchedPage

pytestmark = [pytest.mark.real, pytest.mark.once]  # the page is not compiled


def rows(window: Any) -> Any:
    return window.get_by_role("grid", name="Findings").locator(".sheet").get_by_role("row").filter(visible=True)


def test_they_are_grouped_by_kind_and_kinds_are_muted(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    found = stage.get("sources/0/overview?minutes=1")["findings"]
    total = len(stage.get("sources/0/findings")["rows"])
    kind, count = found[0]["kind"], found[0]["count"]
    assert total > count
    page.goto(stage.url + "findings")
    window = page.page
    expect(rows(window)).to_have_count(total)
    window.get_by_role("button", name="By kind").click()
    kinds = window.get_by_role("group", name="Kinds of findings")
    expect(kinds.get_by_role("row")).to_have_count(1 + len(found))
    assert page.violations() == []
    kinds.get_by_role("button", name=kind, exact=True).click()
    expect(rows(window)).to_have_count(count)
    expect(rows(window).filter(has_text=kind)).to_have_count(count)
    kinds.get_by_role("button", name=kind, exact=True).click()
    kinds.get_by_role("button", name=f"Mute {kind}").click()
    expect(rows(window)).to_have_count(total - count)
    expect(rows(window).filter(has_text=kind)).to_have_count(0)
    expect(window.get_by_role("status").filter(has_text="1 kind muted")).to_be_visible()
    window.reload()  # it is remembered
    expect(window.get_by_role("status").filter(has_text="1 kind muted")).to_be_visible()
    expect(rows(window)).to_have_count(total - count)
    window.emulate_media(color_scheme="dark", reduced_motion="reduce")
    window.set_viewport_size(NARROW)
    assert not page.overflows()
    assert page.violations() == []
    window.goto(stage.url + "overview")
    card = window.get_by_role("region", name="Top findings")
    expect(card).to_contain_text("1 kind muted")
    expect(card.get_by_role("link", name=kind, exact=True)).to_have_count(0)
    window.goto(stage.url + "findings")
    window.get_by_role("button", name="Unmute", exact=True).click()
    expect(rows(window)).to_have_count(total)


def test_words_choose_findings(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    total = len(stage.get("sources/0/findings")["rows"])
    page.goto(stage.url + "findings")
    window = page.page
    window.keyboard.press("/")
    search = window.get_by_role("searchbox", name="Search")
    expect(search).to_be_focused()
    for words, count in (("NOWHERE", 1), ("-nowhere", total - 1)):
        search.fill(words)
        search.press("Enter")
        expect(rows(window)).to_have_count(count)


def test_the_evidence_names_the_command_and_leads_to_the_connection(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    page.goto(stage.url + "findings?filter=kind:returned-publish")
    window = page.page
    rows(window).first.click()
    details = window.get_by_role("region", name="Details")
    command = details.get_by_role("link", name=re.compile(r"^basic\.(publish|return)$"))
    expect(command).to_be_visible()
    expect(details).to_contain_text("nowhere")
    assert page.violations() == []
    details.get_by_role("link", name="The connection").click()
    expect(window).to_have_url(re.compile(r"/connections/\d+"))
    window.go_back()
    command.click()
    expect(window.get_by_role("grid", name="Frames").locator("[aria-selected=true]")).to_contain_text("basic.")


def test_readiness_for_an_upgrade(stage: Stage, page: WatchedPage) -> None:
    """The stage's client declares transient queues, which are deprecated."""
    from playwright.sync_api import expect

    page.goto(stage.url + "findings")
    window = page.page
    window.get_by_role("button", name="Upgrade").click()
    uses = window.get_by_role("group", name="Readiness for an upgrade").get_by_role("row")
    use = uses.filter(has_text="queue orders is declared").first
    expect(use).to_contain_text("deprecated")
    expect(use).to_contain_text("Pika")
    expect(window.get_by_text("Ready for RabbitMQ 4.3")).to_be_visible()
    expect(window.get_by_role("button", name="Copy the rules that bridge it")).to_be_visible()
    shown = window.get_by_text('name = "rabbitmq4-transient-queue"')
    expect(shown).to_be_hidden()
    window.locator("summary", has_text="The rules that bridge it").click()
    expect(shown).to_be_visible()
    assert page.violations() == []
    use.get_by_role("button", name="rabbitmq4-transient-queue").click()
    expect(rows(window).first).to_contain_text("rabbitmq4-transient-queue")
    window.emulate_media(color_scheme="dark", reduced_motion="reduce")
    window.set_viewport_size(NARROW)
    expect(use).to_be_visible()
    assert not page.overflows()
    assert page.violations() == []

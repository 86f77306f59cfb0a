"""Tasks that an operator does in at most three clicks, without a line of YAML or CEL; with real clients."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
import pytest

from tests.dashboard.browser.clicks import Clicks
from tests.dashboard.browser.stage import OwnDashboard, Stage
from tests.dashboard.browser.traffic import connected
from tests.dashboard.browser.watched_page import WatchedPage
from tests.real.poll import until

pytestmark = [pytest.mark.real, pytest.mark.once]  # the page is not compiled


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    running = Stage(tmp_path_factory.mktemp("tasks"))
    try:
        yield running
    finally:
        running.kill()


@contextmanager
def confirming(stage: Stage, name: str, queue: str) -> Iterator[Any]:
    """A channel in confirm mode, with a queue of its own."""
    with connected(stage.port, name) as connection:
        channel = connection.channel()
        channel.queue_declare(queue, exclusive=True)
        channel.confirm_delivery()
        yield channel


def temporary_rules(stage: Stage) -> list[dict[str, Any]]:
    return list(stage.get("sources/0/rules/temporary")["rules"])


def end_all(window: Any) -> None:
    """End the temporary rules, by the badge."""
    from playwright.sync_api import expect

    window.locator("header .badge").click()
    dialog = window.get_by_role("dialog", name="Temporary rules")
    ending = dialog.get_by_role("button", name="now")
    expect(ending).not_to_have_count(0)
    while ending.count():
        before = ending.count()
        ending.first.click()
        expect(ending).to_have_count(before - 1)
    window.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(window.locator("header .badge")).to_have_count(0)


@pytest.mark.parametrize("screen", ["messages", "frames"])
def test_hold_edit_release(screen: str, stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    with connected(stage.port, f"edits {screen}") as connection:
        queue, clicks = f"edits {screen}", Clicks()
        channel = connection.channel()
        channel.queue_declare(queue, exclusive=True)
        channel.basic_publish("", queue, b"first")
        page.goto(f"{stage.url}{screen}")
        window = page.page
        row = window.get_by_role("grid", name=screen.title()).get_by_role("row").filter(has_text=f"{queue}")
        clicks.on(row.filter(has_text="publish").last)
        clicks.on(window.get_by_role("button", name="Hold the next"))
        expect(window.locator("header .badge")).to_contain_text("1 rule")
        channel.basic_publish("", queue, b"second", pika.BasicProperties(headers={"by": "alice"}))
        connection.process_data_events(0.2)
        dialog = window.get_by_role("dialog", name="Edit, and release")
        expect(dialog.get_by_label("Body")).to_have_value("second")
        assert page.violations() == []
        dialog.get_by_label("Body").fill("edited")
        clicks.on(dialog.get_by_role("button", name="Release as edited"))
        expect(dialog).to_have_count(0)
        assert clicks.count <= 3
        [first, second] = until(lambda: [channel.basic_get(queue, auto_ack=True)[2] for _ in range(2)], "both messages")
        assert (first, second) == (b"first", b"edited")
        expect(window.locator("header .badge")).to_have_count(0)  # it has held its one
        channel.basic_publish("", queue, b"third")
        until(lambda: channel.basic_get(queue, auto_ack=True)[2] == b"third", "the third, which nothing holds")


def test_nack_every_tenth_of_one_connection(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    with confirming(stage, "flaky", "flaky") as channel, confirming(stage, "spared", "spared") as other:
        clicks = Clicks()
        page.goto(f"{stage.url}connections")
        window = page.page
        clicks.on(window.get_by_role("row").filter(has_text="flaky").get_by_role("link").first)
        clicks.on(window.get_by_role("button", name="Rules"))
        assert page.violations() == []
        clicks.on(window.get_by_role("button", name="Nack every"))
        expect(window.locator("header .badge")).to_contain_text("1 rule")
        assert clicks.count <= 3

        def published(channel: Any, queue: str, number: int) -> str:
            try:
                channel.basic_publish("", queue, str(number).encode())
            except pika.exceptions.NackError:
                return "nacked"
            return "confirmed"

        assert [published(channel, "flaky", number) for number in range(20)] == (["confirmed"] * 9 + ["nacked"]) * 2
        assert {published(other, "spared", number) for number in range(20)} == {"confirmed"}
        [rule] = temporary_rules(stage)
        assert (rule["hits"], rule["mode"]) == (2, "enforce")
        window.locator("header .badge").click()
        dialog = window.get_by_role("dialog", name="Temporary rules")
        expect(dialog).to_contain_text("nack every 10th")
        expect(dialog).to_contain_text("2 hits")
        assert page.violations() == []
        dialog.get_by_role("button", name="Close").click()
        end_all(window)
        assert temporary_rules(stage) == []
        assert {published(channel, "flaky", number) for number in range(20)} == {"confirmed"}
    for line in ("temporary rule added", "temporary rule ended", "dashboard action"):
        until(lambda found=line: found in stage.log, f"{line!r} in the log")


def test_a_rule_ends_by_itself_though_no_page_is_open(stage: Stage) -> None:
    import urllib.request

    rule = {"name": "short", "action": "log", "text": "seen", "match": {"method": "basic.publish"}}
    body = json.dumps({"rule": rule, "seconds": 1}).encode()
    request = urllib.request.Request(
        f"{stage.url}api/v1/sources/0/rules/temporary", body, {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        assert json.load(response)["rule"] == "short"
    until(lambda: not temporary_rules(stage), "the rule to end")
    until(lambda: "temporary rule expired" in stage.log, "the log to tell it")  # lines are written by a thread


def test_words_are_searched_completed_and_saved(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    with connected(stage.port, "searched") as connection:
        channel = connection.channel()
        channel.queue_declare("haystack", exclusive=True)
        for number in range(5):
            body = b"a needle" if number == 3 else b"hay"
            channel.basic_publish("", "haystack", body, pika.BasicProperties(message_id=f"straw-{number}"))
        channel.queue_declare("haystack", passive=True)
        # Values to complete are asked for once, when the field gets the focus.
        until(lambda: "haystack" in json.dumps(stage.get("sources/0/completions")), "the queue among the completions")
        page.goto(f"{stage.url}messages")
        window = page.page
        rows = window.get_by_role("grid", name="Messages").locator(".sheet").get_by_role("row")
        field = window.get_by_label("Filter (CEL)")
        for words, count in (("NEEDLE", 1), ("straw-1", 1), ("haystack publish", 5)):
            field.fill(words)
            field.press("Enter")
            expect(rows.filter(visible=True)).to_have_count(count)
        options = window.get_by_role("listbox", name="Completions")
        field.fill("hayst")
        options.get_by_role("option").filter(has_text="queue").click()
        expect(field).to_have_value('queue == "haystack"')
        field.fill("que")
        expect(options.get_by_role("option").first).to_contain_text("queue")
        assert page.violations() == []
        field.press("ArrowDown")
        field.press("Enter")
        expect(field).to_have_value("queue == ")
        field.press("ArrowDown")
        field.press("Enter")
        field.press("Enter")
        expect(rows.filter(visible=True).first).to_contain_text("queue.declare")
        assert "filter=queue" in window.url
        window.get_by_role("button", name="Save the filter").click()
        saved = field.input_value()
        window.get_by_role("button", name="Clear the filter").click()
        window.reload()
        field.click()
        options.get_by_role("option").filter(has_text="saved").click()
        expect(field).to_have_value(saved)
        expect(window.get_by_role("button", name="Save the filter")).to_have_attribute("aria-pressed", "true")


def test_a_message_is_edited_and_sent_again(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    with connected(stage.port, "sent again") as connection:
        channel, clicks = connection.channel(), Clicks()
        channel.queue_declare("again", exclusive=False, auto_delete=False)
        channel.basic_publish("", "again", b"once", pika.BasicProperties(headers={"by": "alice"}, priority=3))
        page.goto(f"{stage.url}messages")
        window = page.page
        rows = window.get_by_role("grid", name="Messages").get_by_role("row")
        clicks.on(rows.filter(has_text="again").filter(has_text="publish").last)
        clicks.on(window.get_by_role("button", name="Send again"))
        dialog = window.get_by_role("dialog", name="Edit, and send again")
        expect(dialog.get_by_label("Body")).to_have_value("once")
        dialog.get_by_label("Body").fill("twice")
        dialog.get_by_label("User").fill("guest")
        dialog.get_by_label("Password").fill("wrong")
        clicks.on(dialog.get_by_role("button", name="Send"))
        assert clicks.count <= 3
        expect(dialog.get_by_role("status")).to_contain_text("ACCESS_REFUSED")
        assert page.violations() == []
        dialog.get_by_label("Password").fill("guest")
        dialog.get_by_role("button", name="Send").click()
        expect(dialog.get_by_role("status")).to_contain_text("✓ The broker has confirmed it")
        dialog.get_by_label("Routing key").fill("nowhere")
        dialog.get_by_role("button", name="Send").click()
        expect(dialog.get_by_role("status")).to_contain_text("NO_ROUTE")
        found = [channel.basic_get("again", auto_ack=True) for _ in range(3)]
        assert [body for _, _, body in found] == [b"once", b"twice", None]
        _, properties, _ = found[1]
        assert (properties.headers, properties.priority) == ({"by": "alice"}, 3)
        channel.queue_delete("again")
    until(lambda: "action=resend" in stage.log, "the action in the log")


def test_frames_are_marked_coloured_and_followed_and_columns_chosen(
    stage: Stage, page: WatchedPage, tmp_path: Path
) -> None:
    from playwright.sync_api import expect

    with connected(stage.port, "marked") as connection:
        channel = connection.channel()
        channel.queue_declare("marked", exclusive=True)
        channel.basic_publish("", "marked", b"odd")
        channel.queue_declare("marked", passive=True)
        page.goto(f"{stage.url}frames")
        window = page.page
        rows = window.get_by_role("grid", name="Frames").locator(".sheet").get_by_role("row")
        rows.filter(has_text="basic.publish").filter(has_text="marked").last.click()
        window.get_by_role("button", name="Follow").click()
        expect(window.get_by_label("Filter (CEL)")).to_have_value(
            re.compile(r"client.port == \d+ && channel.number == 1")
        )
        expect(rows.filter(has_text="connection.")).to_have_count(0)
        published = rows.filter(has_text="basic.publish").filter(has_text="marked")
        expect(published).to_have_attribute("aria-selected", "true")
        window.keyboard.press("m")
        dialog = window.get_by_role("dialog", name=re.compile("Mark frame"))
        dialog.get_by_label("Comment").fill("why is it odd?")
        assert page.violations() == []
        dialog.get_by_label("Comment").press("Enter")
        expect(dialog).to_have_count(0)
        expect(rows.filter(has_text="★ why is it odd?")).to_have_count(1)

        window.get_by_role("button", name="Columns").click()
        window.get_by_role("checkbox", name="Rules").uncheck()
        field = window.get_by_label("A word, in violet")
        field.fill("QUEUE.declare-ok")
        field.press("Enter")
        assert page.violations() == []
        window.keyboard.press("Escape")
        window.reload()
        expect(window.get_by_role("columnheader", name="Rules")).to_have_count(0)
        expect(rows.filter(has_text="queue.declare-ok").first).to_have_class(re.compile("tint-violet"))
        expect(rows.filter(has_text="basic.publish").last).not_to_have_class(re.compile("tint-"))
        expect(rows.filter(has_text="★ why is it odd?")).to_have_count(1)

        window.get_by_role("button", name="Export").click()
        with window.expect_download() as download:
            window.get_by_role("link", name="Capture (pcapng)").click()
        download.value.save_as(tmp_path / "marked.pcapng")
    opened = OwnDashboard(tmp_path / "log", "--capture", str(tmp_path / "marked.pcapng"))
    try:
        page.goto(opened.url + "frames")
        expect(rows.filter(has_text="★ why is it odd?")).to_have_count(1)
        expect(rows.filter(has_text="★ why is it odd?")).to_contain_text("basic.publish")
    finally:
        opened.kill()

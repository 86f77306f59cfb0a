"""Actions of an operator by the page's buttons, with their effect on the client and the log."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
import pytest

from tests.dashboard.browser.stage import OwnDashboard, Stage
from tests.dashboard.browser.traffic import connected
from tests.dashboard.browser.watched_page import WatchedPage
from tests.real.poll import until

pytestmark = [pytest.mark.real, pytest.mark.once]  # the page is not compiled

RULES = [
    {
        "name": "look first",
        "action": "hold",
        "timeout": 3600,
        "match": {"method": ["basic.publish"], "routing_key": ["held"]},
    },
    {
        "name": "no drafts",
        "action": "refuse",
        "mode": "shadow",
        "match": {"method": ["basic.publish"], "routing_key": ["draft"]},
    },
]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A proxy that holds some commands, may record, and which other dashboards can ask."""
    directory = tmp_path_factory.mktemp("actions")
    config = {"rules": RULES, "control": {"path": str(directory / "control")}}
    running = Stage(directory, **config)
    try:
        yield running
    finally:
        running.kill()


@pytest.fixture
def window(stage: Stage, page: WatchedPage) -> Any:
    from playwright.sync_api import expect

    page.goto(stage.url + "rules")
    expect(page.page.get_by_role("status", name="State: live")).to_be_visible()  # keys do nothing before
    return page.page


def session_of(stage: Stage, name: str) -> int:
    """The number of the connection that its client has given this name."""

    def found() -> int:
        connections = stage.get("sources/0/connections")["connections"]
        return next((each["session"] for each in connections if each.get("is_open") and name in repr(each)), 0)

    return until(found, f"the connection {name}")


def noted(stage: Stage, action: str, **fields: object) -> None:
    """Wait until the log says that we have done this; with these fields."""

    def is_noted() -> bool:
        lines = [line for line in stage.log.splitlines() if re.search(rf"dashboard action\s.*action={action}\s", line)]
        wanted = [f"{name}={value}" for name, value in {"by": "127.0.0.1", **fields}.items()]
        return any(all(each in line for each in wanted) for line in lines)

    until(is_noted, f"{action} {fields} in the log")


def top_of(place: Any) -> float:
    """The upper edge of an element, in pixels; NaN, which is not near to anything, while it is not laid out."""
    box = place.bounding_box()
    return float(box["y"]) if box else math.nan


def published(connection: Any, stage: Stage, queue: str) -> None:
    """Publish, and wait until the dashboard has the message: rules are tried on it, and completed from it."""
    connection.channel().basic_publish("", queue, b"1")
    until(
        lambda: queue in [each.get("routing_key") for each in stage.get("sources/0/messages")["rows"]],
        f"the message for {queue}",
    )


def ready(channel: Any, queue: str) -> int:
    """Return the number of messages in the queue."""
    return int(channel.queue_declare(queue, passive=True).method.message_count)


def test_a_connection_is_closed(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    with connected(stage.port, "to be closed") as connection:
        number = session_of(stage, "to be closed")
        page.goto(f"{stage.url}connections/{number}")
        window = page.page
        window.get_by_role("button", name="Close …").first.click()
        dialog = window.get_by_role("dialog", name=f"Close connection #{number}")
        dialog.get_by_label("Reply text").fill("maintenance")
        assert page.violations() == []
        dialog.get_by_role("button", name="Close it").click()
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
            until(lambda: connection.process_data_events(0.1), "the connection to be closed")
        assert (closed.value.reply_code, "maintenance" in closed.value.reply_text) == (320, True)
        expect(window.get_by_role("region", name="How it ended")).to_contain_text("maintenance")
    noted(stage, "close", outcome="done", session=number)


def test_a_channel_is_paused_goes_on_and_is_closed(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    with connected(stage.port, "two channels") as connection:
        one, other = connection.channel(), connection.channel()
        other.queue_declare("slow", exclusive=True)
        number = session_of(stage, "two channels")
        page.goto(f"{stage.url}connections/{number}")
        window = page.page
        row = window.get_by_role("group", name="Channels").locator("tbody tr").first
        row.get_by_role("button", name="Pause").click()
        expect(row).to_contain_text("❚❚ paused")
        one.basic_publish("", "slow", b"waits")
        connection.process_data_events(0.2)
        assert ready(other, "slow") == 0
        row.get_by_role("button", name="Go on").click()
        until(lambda: ready(other, "slow") == 1, "the publish to pass")
        expect(row.get_by_role("button", name="Pause")).to_be_visible()
        row.get_by_role("button", name="Close …").click()
        window.get_by_role("dialog", name="Close channel 1").get_by_role("button", name="Close it").click()
        until(lambda: connection.process_data_events(0.1) or one.is_closed, "the channel to be closed")
        assert other.is_open
    for action in ("pause", "resume", "close"):
        noted(stage, action, outcome="done", session=number, channel=1)


def test_a_connection_is_paused_and_goes_on(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    with connected(stage.port, "one of us") as connection, connected(stage.port) as other:
        channel, watcher = connection.channel(), other.channel()
        watcher.queue_declare("later", exclusive=True)
        page.goto(f"{stage.url}connections/{session_of(stage, 'one of us')}")
        window = page.page
        window.get_by_role("button", name="❚❚ Pause").click()
        expect(window.get_by_role("button", name="▶ Go on")).to_be_visible()
        channel.basic_publish("", "later", b"waits")
        connection.process_data_events(0.2)
        assert ready(watcher, "later") == 0
        window.get_by_role("button", name="▶ Go on").click()
        until(lambda: ready(watcher, "later") == 1, "the publish to pass")


def test_held_commands_are_released_edited_refused_and_dropped(stage: Stage, window: Any, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    properties = pika.BasicProperties(content_type="text/plain", headers={"by": "alice", "draft": True})
    held = window.get_by_role("region", name="Held commands")
    with connected(stage.port, "asks first") as connection:
        watcher = connection.channel()
        watcher.queue_declare("held", exclusive=True)
        watcher.queue_declare("changed", exclusive=True)

        def hold(body: str) -> tuple[Any, Any]:
            channel = connection.channel()
            channel.basic_publish("", "held", body.encode(), properties)
            entry = held.get_by_role("listitem").filter(has_text=body)
            expect(entry).to_contain_text("look first")
            return channel, entry

        _, entry = hold("release me")
        assert page.violations() == []
        entry.get_by_role("button", name="Release").click()
        until(lambda: ready(watcher, "held") == 1, "the command to be released")
        expect(entry).to_have_count(0)

        _, entry = hold("edit me")
        entry.get_by_role("button", name="Edit …").click()
        dialog = window.get_by_role("dialog", name="Edit, and release")
        dialog.get_by_label("Headers").fill("no JSON")
        dialog.get_by_role("button", name="Release as edited").click()
        expect(dialog.get_by_role("alert")).to_contain_text("not JSON")
        dialog.get_by_label("Routing key").fill("changed")
        dialog.get_by_label("Headers").fill('{"by": "bob"}')
        dialog.get_by_label("Body").fill("edited")
        assert page.violations() == []
        dialog.get_by_role("button", name="Release as edited").click()
        expect(dialog).to_have_count(0)
        until(lambda: ready(watcher, "changed") == 1, "the edited command")
        _, found, body = watcher.basic_get("changed", auto_ack=True)
        assert (found.headers, found.content_type, body) == ({"by": "bob"}, "text/plain", b"edited")

        refused, entry = hold("refuse me")
        entry.get_by_role("button", name="Refuse").click()
        until(lambda: connection.process_data_events(0.1) or refused.is_closed, "the channel to be closed")

        dropped, entry = hold("drop me")
        entry.get_by_role("button", name="Drop").click()
        expect(entry).to_have_count(0)
        assert (ready(watcher, "held"), dropped.is_open) == (1, True)
    for verdict in ("pass", "refuse", "drop"):
        noted(stage, "release", outcome="done", verdict=verdict)


def test_rules_are_written_tried_applied_and_put_in_shadow(stage: Stage, window: Any, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    with connected(stage.port) as connection:
        published(connection, stage, "draft")
        window.keyboard.press("e")
        area = window.get_by_label("The rules, in YAML")
        expect(area).to_have_value(re.compile("no drafts"))
        before = area.input_value()
        wrong = before + "- name: stamped\n  action: tag\n  tags: [seen]\n  when: exchang == ''\n"
        area.fill(wrong)
        window.get_by_role("button", name="Check").click()
        alert = window.get_by_role("region", name="Editor").get_by_role("alert")
        expect(alert).to_contain_text("exchang")
        expect(alert).to_contain_text("^")
        expect(window.locator(".gutter .wrong")).to_have_text(re.compile("▶"))
        beside = window.locator(".beside")
        expect(beside).to_contain_text("exchang")
        mark = window.locator(".gutter .wrong")
        until(lambda: abs(top_of(beside) - top_of(mark)) < 4, "the error beside the line that is marked")
        assert page.violations() == []
        window.get_by_role("button", name="Apply").click()
        expect(alert).to_contain_text("exchang")  # refused as a whole
        assert len(stage.get("sources/0/rules")["rules"]) == len(RULES)

        area.fill(wrong.replace("exchang ", "exchange "))
        window.get_by_role("button", name="Try on what has passed").click()
        tried = window.get_by_role("group", name="By rule").locator("tbody tr")
        expect(tried).to_have_count(3)
        expect(tried.filter(has_text="stamped").locator("td").nth(1)).not_to_have_text("0")
        expect(alert).to_have_count(0)
        window.get_by_role("button", name="Apply").click()
        row = window.get_by_role("group", name="Rules in force").locator("tbody tr").filter(has_text="stamped")
        expect(row).to_contain_text("enforce")

        row.get_by_role("button", name="Shadow", exact=True).click()
        expect(row).to_contain_text("shadow")
        row.get_by_role("button", name="Enforce").click()
        expect(row).to_contain_text("● enforce")
        connection.channel().basic_publish("", "draft", b"2")
        expect(row).to_contain_text("tagged 1")

        row.get_by_role("button", name="Delete").click()
        expect(row).to_have_count(0)
        assert "stamped" not in [each["name"] for each in stage.get("sources/0/rules")["rules"]]
    noted(stage, "rules-set", outcome="refused", name="rules")
    for action in ("rules-set", "rules-shadow", "rules-enforce", "rules-remove"):
        noted(stage, action, outcome="done")


def test_the_rules_of_a_bridge_are_listed_and_stay(page: WatchedPage, tmp_path: Path) -> None:
    from playwright.sync_api import expect

    own = Stage(tmp_path, rules=RULES[:1], upstream={"address": "127.0.0.1:1", "bridge": "rabbitmq-4"})
    try:
        page.goto(own.url + "rules")
        listed = page.page.get_by_role("group", name="Rules in force").locator("tbody tr")
        row = listed.filter(has_text="rabbitmq4-queue-version")
        expect(row).to_contain_text("of the bridge")
        expect(row.get_by_role("button")).to_have_count(0)
        expect(listed.filter(has_text=RULES[0]["name"]).get_by_role("button", name="Delete")).to_be_visible()
        assert page.violations() == []
    finally:
        own.kill()


def test_rules_are_completed(stage: Stage, window: Any, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    with connected(stage.port) as connection:
        published(connection, stage, "completed")
        window.keyboard.press("e")
        area = window.get_by_label("The rules, in YAML")
        area.fill("rules:\n- name: a\n  ")
        options = window.get_by_role("listbox", name="Completions").get_by_role("option")
        area.press_sequentially("act")
        expect(options.first).to_contain_text("action")
        area.press("Tab")
        expect(options.filter(has_text="until it is released")).to_contain_text("hold")
        area.press_sequentially("fau")
        assert page.violations() == []
        area.press("ArrowDown")
        area.press("Enter")
        area.press_sequentially("\n  fault:\n    kind: na")
        expect(options).to_have_count(1)
        area.press("Tab")
        area.press_sequentially("\n  when: routing")
        expect(options.first).to_contain_text("routing_key")
        options.first.click()
        area.press_sequentially('"comp')
        options.filter(has_text="completed").first.click()
        expect(area).to_have_value(
            'rules:\n- name: a\n  action: fault\n  fault:\n    kind: nack\n  when: routing_key == "completed"'
        )
        area.press_sequentially("\n  m")
        expect(options.first).to_contain_text("match")
        area.press("Escape")
        expect(options).to_have_count(0)
        area.press("Enter")  # writes a line
        expect(area).to_have_value(re.compile("m\n$"))


def test_what_passes_is_recorded_opened_and_replayed(stage: Stage, page: WatchedPage, tmp_path: Path) -> None:
    from playwright.sync_api import expect

    page.goto(stage.url + "captures")
    window = page.page
    recording = window.get_by_role("region", name="Recording")
    recording.get_by_label("Directory").fill(str(tmp_path))
    recording.get_by_role("button", name="Record").click()
    expect(recording).to_contain_text("● recording")
    with connected(stage.port) as connection:
        connection.channel().queue_declare("recorded", auto_delete=True)
    recording.get_by_role("button", name="Stop").click()
    expect(recording).to_contain_text("○ nothing is recorded")
    [file] = tmp_path.glob("*.pcapng*")
    row = window.get_by_role("group", name="List of captures").locator("tbody tr").filter(has_text=file.name)
    row.get_by_role("button", name="Replay …").click()
    dialog = window.get_by_role("dialog", name=f"Replay {file.name}")
    dialog.get_by_label("To").fill(f"amqp://guest:guest@127.0.0.1:{stage.port}")
    dialog.get_by_label("Speed").select_option("max")
    dialog.get_by_role("button", name="Replay").click()
    replay = window.get_by_role("article", name=f"Replay of {file.name}")
    expect(replay.get_by_role("status")).to_have_text("✓ the same")
    assert page.violations() == []
    row.get_by_role("button", name="Open").click()
    expect(window.get_by_role("status", name="State: capture")).to_be_visible()
    window.get_by_role("link", name="Messages").click()
    expect(window.get_by_role("grid", name="Messages")).to_contain_text("queue.declare")
    for action, outcome in (("record-start", "done"), ("record-stop", "done"), ("capture-open", "done")):
        noted(stage, action, outcome=outcome)
    noted(stage, "replay", outcome="started", path=str(file))
    noted(stage, "replay", outcome="same", path=str(file))


@pytest.mark.parametrize("kind", ["token", "password"])
def test_who_has_logged_in_sees_all_and_read_only_changes_nothing(
    kind: str, stage: Stage, page: WatchedPage, tmp_path: Path
) -> None:
    from playwright.sync_api import expect

    (tmp_path / "secret").write_text("open sesame")
    options = ("--connect", stage.control, f"--{kind}-file", str(tmp_path / "secret"), "--read-only")
    own = OwnDashboard(tmp_path / "log", *options)
    try:
        with connected(stage.port, f"watched with a {kind}"):
            number = session_of(stage, f"watched with a {kind}")
            window = page.page
            page.goto(own.url + "rules")
            secret = window.get_by_label("Token or password")
            secret.fill("a guess")
            secret.press("Enter")
            expect(window.get_by_role("alert")).to_contain_text("not the token")
            assert page.violations() == []
            secret.fill("open sesame")
            secret.press("Enter")
            expect(window.get_by_role("status", name="State: live")).to_be_visible()
            expect(window.get_by_text("read only")).to_be_visible()
            expect(window.get_by_role("group", name="Rules in force")).to_contain_text("look first")
            window.get_by_role("button", name="Show the rules").click()
            expect(window.get_by_label("The rules, in YAML")).not_to_be_editable()
            for action in ("Check", "Try on what has passed", "Apply", "Shadow", "Enforce"):
                expect(window.get_by_role("button", name=action, exact=True)).to_have_count(0)
            page.goto(f"{own.url}connections/{number}")
            expect(window.get_by_role("region", name="Who, and what was agreed")).to_be_visible()
            for action in ("Close …", "❚❚ Pause"):
                expect(window.get_by_role("button", name=action)).to_have_count(0)
            page.goto(own.url + "captures")
            expect(window.get_by_role("region", name="Recording")).to_contain_text("nothing is recorded")
            expect(window.get_by_role("button", name="Record")).to_have_count(0)
            status = window.evaluate(
                """async path => (await fetch(path, {method: 'POST', body: '{}',
                headers: {'content-type': 'application/json'}})).status""",
                f"/api/v1/sources/0/connections/{number}/close",
            )
            assert status == 403
        until(lambda: re.search(r"dashboard login\s+client=127.0.0.1", own.log), "the login in the log")
        assert len(re.findall(r"dashboard login\s+client=127.0.0.1", own.log)) == 1
        assert own.log.count("dashboard login refused") == 1
        assert not re.search("open sesame|a guess", own.log)
    finally:
        own.kill()

"""What passes while somebody looks: cut off and back, too slow, too much, and meant to do harm."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker

from tests.dashboard.browser.screens import SCREENS, rows, set_filter
from tests.dashboard.browser.stage import OwnDashboard, Stage
from tests.dashboard.browser.traffic import connected, do_harm, publishing
from tests.dashboard.browser.watched_page import WatchedPage
from tests.dashboard.browser.watching import MIB, WATCH
from tests.real.poll import until
from tests.real.proxy import Program, command

pytestmark = [pytest.mark.real, pytest.mark.once]  # the page is not compiled


def test_the_page_outlives_its_proxy(tmp_path: Path, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    first = Stage(tmp_path)
    try:
        page.goto(first.url + "frames")
        try_first_client(page, first.port)
        expect(rows(page.page)).not_to_have_count(0)
        seen = rows(page.page).count()
    finally:
        first.kill()
    expect(page.page.get_by_text("Disconnected.")).to_be_visible()
    expect(page.page.get_by_role("status", name="State: disconnected")).to_be_visible()
    assert rows(page.page).count() >= seen
    assert page.violations() == []
    second = Stage(tmp_path, listen=first.port, page=first.page_port)
    try:
        expect(page.page.get_by_role("status", name="State: live")).to_be_visible(timeout=60_000)
        with connected(second.port) as connection:
            set_filter(page.page, "method == 'queue.declare'")
            connection.channel().queue_declare("again", auto_delete=True)
            expect(rows(page.page).filter(has_text="again").first).to_be_visible()
    finally:
        second.kill()


def try_first_client(page: WatchedPage, port: int) -> None:
    """Where nothing has passed yet, there are programs to be copied; that of pika is run."""
    from playwright.sync_api import expect

    shown = page.page.get_by_role("region", name="No traffic yet")
    url = f"amqp://guest:guest@127.0.0.1:{port}"
    expect(shown.get_by_text(url, exact=True)).to_be_visible()
    for language in ("Go", "Java", "amqplib", "pika"):
        shown.get_by_role("tab", name=language).click()
        expect(shown.get_by_role("tabpanel")).to_contain_text(url)
    assert page.violations() == []
    program = shown.get_by_role("tabpanel").inner_text()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "Hello" in done.stdout


def test_a_dashboard_of_its_own_outlives_a_proxy(tmp_path: Path, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    socket = str(tmp_path / "control")
    config = {"listen": [{"address": "127.0.0.1:0"}], "upstream": "broker", "control": {"path": socket}}
    file = tmp_path / "proxy.yaml"
    file.write_text(json.dumps(config))
    start = [*command(), "run", "--config", str(file)]
    first = Program(tmp_path / "first.log", *start)
    log = tmp_path / "dashboard.log"
    try:
        dashboard = OwnDashboard(log, "--connect", socket)
        try:
            until(dashboard.is_following, "the dashboard to follow the proxy")
            page.goto(dashboard.url + "frames")
            with connected(first.port):
                expect(rows(page.page)).not_to_have_count(0)
            first.kill()
            expect(page.page.get_by_role("status", name="State: proxy is gone")).to_be_visible()
            assert rows(page.page).count() > 0
            second = Program(tmp_path / "second.log", *start)
            try:
                expect(page.page.get_by_role("status", name="State: live")).to_be_visible(timeout=60_000)
                expect(page.page.get_by_text("The proxy was started anew.")).to_be_visible()
            finally:
                second.kill()
            dashboard.terminate()
            assert dashboard.wait() == 0
        finally:
            dashboard.kill()
    finally:
        first.kill()


def test_who_is_too_slow_is_told_what_was_skipped(stage: Stage) -> None:
    """Two batches are sent without being asked for; what passes until the next is asked for is more than a batch."""
    from websockets.sync.client import connect

    def receive(kind: str) -> Any:
        while True:
            message = json.loads(viewer.recv(timeout=30))
            if message["type"] == kind:
                return message

    address = stage.url.replace("http", "ws") + "api/v1/live"
    with connect(address, origin=stage.url.rstrip("/")) as viewer, publishing(stage.port, 20_000):  # type: ignore[arg-type]
        look = {"type": "view", "view": "a", "source": 0, "what": "frames", "filter": "", "after": None}
        viewer.send(json.dumps({**look, "credit": 1, "max_age": 1}))
        assert receive("view")["ok"]
        first = receive("batch")
        until(lambda: stage.get("sources")[0]["rows"]["next"] > first["seq"] + 40_000, "many frames", pause=0.2)
        viewer.send(json.dumps({"type": "more", "view": "a", "credit": 1}))
        batch = receive("batch")
    assert batch["skipped"] > 10_000
    assert batch["skipped"] + len(batch["rows"]) == batch["seq"] - first["seq"]


def test_a_large_message_has_its_rows(stage: Stage, page: WatchedPage) -> None:
    """Its 160 frames fill three hundred batches, which are late for that alone; of its body the beginning is kept."""
    from playwright.sync_api import expect

    until(lambda: is_shown_again(stage), "the dashboard to have caught up with the tests before")
    with connected(stage.port, "large") as connection:
        name = until(lambda: shown_large_one(stage, connection), "all of one large message", deadline=120)
        page.goto(stage.url + "messages?filter=size+%3E+1000000")
        publish = page.page.get_by_role("row").filter(has_text="confirmed").last
        expect(publish).to_contain_text("→ large")
        expect(publish).to_contain_text("10.0 MiB")
        expect(page.page.get_by_role("row").filter(has_text="auto-acked").last).to_contain_text("10.0 MiB")
        fault = page.page.get_by_role("row").filter(has_text="NOT_FOUND").filter(has_text=name)
        expect(fault).to_have_count(0)
        page.page.get_by_role("button", name="Faults").click()
        expect(fault).to_have_count(1)
        expect(page.page).to_have_url(re.compile("faults=1"))
        publish.click()
        expect(page.page.get_by_role("region", name="Body")).to_contain_text("256 KiB of 10.0 MiB are kept")


def shown_large_one(stage: Stage, connection: pika.BlockingConnection) -> str:
    """A name that a fault and a large message have, if the dashboard shows both; else "", as it skips what is late."""
    name, size = f"no large one {time.monotonic()}", 10 * MIB
    lost = stage.get("sources/0/overview")["lost"]
    with pytest.raises(ChannelClosedByBroker):  # older faults may be dropped where much has passed since
        connection.channel().queue_declare(name, passive=True)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("large", exclusive=True)
    channel.basic_publish("", "large", b"x" * size, pika.BasicProperties(message_id=name))
    assert len(channel.basic_get("large", auto_ack=True)[2]) == size

    def is_shown() -> bool:
        rows = stage.get("sources/0/messages?limit=500")["rows"]
        ends = {each["outcome"] for each in rows if (each.get("properties") or {}).get("message_id") == name}
        return {"confirmed", "auto-acked"} <= ends and f"queue '{name}'" in json.dumps(rows)

    until(lambda: is_shown() or stage.get("sources/0/overview")["lost"] > lost, "a large message, or its loss")
    return name if is_shown() else ""


def is_shown_again(stage: Stage) -> bool:
    """Whether all connections are shown, and what a new one does is shown at once."""
    name = f"caught up {time.monotonic()}"
    with connected(stage.port) as connection:
        connection.channel().queue_declare(name, exclusive=True)
        time.sleep(0.5)
    rows = stage.get("sources/0/messages?limit=500")["rows"]
    return stage.get("sources")[0]["sample"] is None and name in json.dumps(rows)


def has_come(stage: Stage, port: int) -> bool:
    """Has the dashboard what was sent? On a busy machine it skips what is late: then it is sent again."""
    names = [each.get("routing_key") for each in stage.get("sources/0/messages")["rows"]]
    if "huge" in names:
        return True
    if stage.get("sources/0/overview")["lost"]:
        do_harm(port)
    return False


def test_nothing_in_a_message_does_harm(tmp_path: Path, page: WatchedPage) -> None:
    """Each value is a script, and shown as what it is. The page complains where its policy has stopped anything."""
    from playwright.sync_api import expect

    running = Stage(tmp_path, broker={"limits": {"frame_max": 4 * MIB}})
    try:
        do_harm(running.port)
        until(lambda: has_come(running, running.port), "the large header", pause=1)
        for screen in SCREENS:
            page.goto(running.url + screen)
            expect(page.page.get_by_role("status", name="State: live")).to_be_visible()
            page.page.wait_for_timeout(500)  # it asks the server for what it shows
            assert page.page.evaluate("window.hurt") is None
        page.goto(running.url + "frames")
        set_filter(page.page, "method == 'basic.publish' && properties.app_id.contains('script')")
        rows(page.page).filter(has_text="content header").first.click()
        expect(page.page.get_by_role("tree", name="Fields")).to_contain_text("<script>")
        assert page.page.evaluate("window.hurt") is None
        assert page.page.locator("img[src=x]").count() == 0
        page.goto(running.url + "messages")
        page.page.get_by_role("row").filter(has_text="huge").first.click()
        details = page.page.get_by_role("region", name="Details")
        expect(details).to_contain_text("<script>")
        expect(details).to_contain_text(f"({MIB} characters)")
        page.goto(running.url + "frames")
        set_filter(page.page, "routing_key == 'huge'")
        rows(page.page).filter(has_text="content header").first.click()
        expect(page.page.get_by_role("tree", name="Fields")).to_contain_text("<script>")
        expect(page.page.get_by_role("region", name="Details")).to_contain_text("content header")
        assert page.page.evaluate("window.hurt") is None
        assert page.violations() == []
    finally:
        running.kill()


@pytest.mark.slow
def test_much_traffic_is_shown_as_it_passes(tmp_path: Path, page: WatchedPage) -> None:
    """The newest row is less than a second old, and the page moves; looked at until it is so, as machines are noisy."""
    running = Stage(tmp_path)
    try:
        page.goto(running.url + "frames")
        with publishing(running.port, 5_000):
            until(lambda: is_fluent(page.page.evaluate(WATCH, 2)), "the newest rows", deadline=150, pause=0)
    finally:
        running.kill()


@pytest.mark.soak
def test_20_000_records_a_second(tmp_path: Path, page: WatchedPage) -> None:
    running = Stage(tmp_path)
    try:
        page.goto(running.url + "frames")
        taken = []
        with publishing(running.port, 20_000):
            for _ in range(10):
                seen = page.page.evaluate(WATCH, 3)
                taken.append((running.server.memory_info().rss // MIB, seen["heap"] // MIB, running.rss() // MIB))
                assert len(taken) < 3 or is_fluent(seen), seen
            passed = running.get("sources")[0]["rows"]["next"]
        assert passed > 25 * 20_000
        for before, after in zip(taken[5], taken[-1], strict=True):
            assert after < 1.2 * before + 20
    finally:
        running.kill()


def is_fluent(seen: dict[str, Any]) -> bool:
    return bool(seen["fps"] >= 30 and max(seen["ages"]) < 1)

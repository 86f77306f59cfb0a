"""Upstreams and switches on the page: members as they are, and what an operator does with them by its buttons."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pika.exceptions
import pytest

from amqproxy.control import ControlClient
from tests.dashboard.browser.stage import OwnDashboard, Stage
from tests.dashboard.browser.traffic import connected
from tests.dashboard.browser.watched_page import NARROW, WIDE, WatchedPage
from tests.real.own import OwnBroker
from tests.real.poll import until
from tests.real.ports import free_port

pytestmark = [pytest.mark.real, pytest.mark.once]  # the page is not compiled


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[OwnBroker]]:
    """Two brokers by themselves."""
    with ExitStack() as stack:
        found: list[OwnBroker] = []
        for _ in range(2):
            found.append(OwnBroker(tmp_path_factory.mktemp("broker")))
            stack.callback(found[-1].kill)
        yield found


@pytest.fixture(scope="module")
def dead_port() -> int:
    """A port at which nobody listens."""
    return free_port()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, brokers: list[OwnBroker], dead_port: int) -> Iterator[Stage]:
    """A proxy in front of blue, with a broker and a member that is not there, and of green, with the other broker."""
    directory = tmp_path_factory.mktemp("fleet")
    (directory / "password").write_text("guest")
    (directory / "password").chmod(0o600)
    login = {"user": "guest", "password_file": str(directory / "password")}
    blue = [{"address": f"127.0.0.1:{brokers[0].port}"}, {"address": f"127.0.0.1:{dead_port}", "zone": "cellar"}]
    running = Stage(
        directory,
        upstream="blue",
        upstreams={
            "blue": {"members": blue, "slow_start": 0.001, "ejection": {"time": 600, "most": 600}, **login},
            "green": {"address": f"127.0.0.1:{brokers[1].port}", **login},
        },
        switching={"state": str(directory / "switches.json")},
        control={"path": str(directory / "control")},
    )
    try:
        yield running
    finally:
        running.kill()


def members(stage: Stage) -> dict[str, dict[str, Any]]:
    """The members by their addresses, as the API has them."""
    return {each["member"]: each for each in stage.get("sources/0/upstreams")["upstreams"]}


def declarer(stage: Stage, queue: str) -> dict[str, Any]:
    """Who has declared a queue, as the topology has it."""
    objects = stage.get("sources/0/topology")["topology"]
    return next((each["declared_by"] for each in objects if each["kind"] == "queue" and each["name"] == queue), {})


def row_of(window: Any, port: int) -> Any:
    return window.get_by_role("row").filter(has_text=f"127.0.0.1:{port}").filter(has=window.get_by_role("button"))


def test_members_are_seen_drained_ejected_weighed_and_restored(
    stage: Stage, page: WatchedPage, brokers: list[OwnBroker], dead_port: int
) -> None:
    from playwright.sync_api import expect

    window, alive = page.page, brokers[0].port
    with ExitStack() as clients:
        while members(stage)[f"127.0.0.1:{dead_port}"]["state"] != "ejected":
            clients.enter_context(connected(stage.port))
        clients.enter_context(connected(stage.port)).channel().queue_declare("seen", exclusive=True)
        until(lambda: declarer(stage, "seen").get("upstream") == f"127.0.0.1:{alive}", "the queue's member")
        open_now = members(stage)[f"127.0.0.1:{alive}"]["connections"]
        page.goto(stage.url + "upstreams")
        card = window.get_by_role("region", name="Upstream blue")
        dead, row = row_of(window, dead_port), row_of(window, alive)
        expect(dead).to_contain_text("ejected for")
        expect(dead).to_contain_text("cellar")
        expect(card).to_contain_text("Last failure: 127.0.0.1:")
        expect(row).to_contain_text("up")
        expect(card.get_by_role("status")).to_contain_text(f"1 of 2 members takes clients, {open_now} connection")
        expect(window.get_by_role("region", name="Upstream green")).to_be_visible()
        assert page.violations() == []

        row.get_by_role("button", name="Drain …").click()
        dialog = window.get_by_role("dialog", name=f"Drain 127.0.0.1:{alive}")
        assert page.violations() == []
        dialog.get_by_role("button", name="Drain it").click()
        expect(row).to_contain_text("draining")
        assert members(stage)[f"127.0.0.1:{alive}"]["connections"] == open_now  # they stay
        row.get_by_role("button", name="Restore").click()
        expect(row.get_by_role("button", name="Drain …")).to_be_visible()
        expect(row).not_to_contain_text("draining")

        row.get_by_role("button", name="Weight …").click()
        dialog = window.get_by_role("dialog", name=f"Weight of 127.0.0.1:{alive}")
        expect(dialog.get_by_label("Weight")).to_have_value("1")
        dialog.get_by_label("Weight").fill("7")
        dialog.get_by_role("button", name="Set it").click()
        expect(dialog).to_have_count(0)
        until(lambda: members(stage)[f"127.0.0.1:{alive}"]["weight"] == 7, "the weight")

        row.get_by_role("button", name="Eject …").click()
        dialog = window.get_by_role("dialog", name=f"Eject 127.0.0.1:{alive}")
        dialog.get_by_label("Seconds").fill("600")
        dialog.get_by_role("button", name="Eject it").click()
        expect(row).to_contain_text("ejected for")
        row.get_by_role("button", name="Restore").click()
        expect(row).not_to_contain_text("ejected")

        card.get_by_role("button", name="Rebalance …").click()
        dialog = window.get_by_role("dialog", name="Rebalance blue")
        dialog.get_by_role("button", name="Rebalance it").click()
        expect(dialog).to_have_count(0)
        expect(window.get_by_text("✓ blue is rebalanced")).to_be_visible()

        window.set_viewport_size(NARROW)
        assert not page.overflows()
        window.set_viewport_size(WIDE)
        page.goto(stage.url + "connections")
        expect(window.get_by_role("cell", name=f"127.0.0.1:{alive}").first).to_be_visible()
    for action in ("drain", "restore", "weight", "eject", "rebalance"):
        until(lambda action=action: f"action=upstreams-{action} " in stage.log, f"{action} in the log")


def test_a_member_that_flaps_is_a_finding_without_a_connection(stage: Stage, page: WatchedPage, dead_port: int) -> None:
    from playwright.sync_api import expect

    with ControlClient(Path(stage.control)) as control:
        for _ in range(3):
            control.ask("upstreams-eject", member=f"127.0.0.1:{dead_port}")
    page.goto(stage.url + "findings?filter=kind:upstream-flapping")
    window = page.page
    row = window.get_by_role("grid", name="Findings").locator(".sheet").get_by_role("row").filter(has_text="left out")
    row.first.click()
    expect(window.get_by_text("In the proxy itself: no frame shows it.")).to_be_visible()
    expect(window.get_by_text(f"127.0.0.1:{dead_port} of blue was left out 3 times").first).to_be_visible()
    expect(window.get_by_role("link", name="Its frames")).to_have_count(0)
    assert page.violations() == []
    window.get_by_role("link", name="The upstreams").click()
    expect(window.get_by_role("main")).to_have_accessible_name("Upstreams")


def test_a_switch_is_watched_and_led_back(stage: Stage, page: WatchedPage, brokers: list[OwnBroker]) -> None:
    from playwright.sync_api import expect

    window, (blue, green) = page.page, brokers
    with connected(blue.port) as connection:
        channel = connection.channel()
        channel.queue_declare("to.move", durable=True)
        for number in range(20):
            channel.basic_publish("", "to.move", str(number).encode())
    with connected(green.port) as connection:
        connection.channel().queue_declare("to.move", durable=True)
    client = connected(stage.port)
    page.goto(stage.url + "upstreams")
    with ControlClient(Path(stage.control)) as control:
        queues = [{"vhost": "/", "name": "to.move"}]
        control.ask("switches-begin", source="blue", target="green", queues=queues, finds_queues=False)
    card = window.get_by_role("region", name="Switches")
    row = card.get_by_role("row").filter(has_text="blue-green")
    expect(row).to_contain_text("blue → green")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        until(lambda: client.process_data_events(0.1), "the client to be told")
    assert closed.value.reply_code == 320
    expect(row.get_by_role("cell").nth(1)).to_have_text("green")
    expect(row.get_by_role("cell").nth(4)).to_have_text("20")
    expect(row.get_by_role("cell").nth(3)).to_have_text("1 of 1 queue")
    assert page.violations() == []
    with connected(stage.port) as connection:  # at green
        assert connection.channel().queue_declare("to.move", passive=True).method.message_count == 20
    page.goto(stage.url + "overview")
    expect(row).to_contain_text("green")
    row.get_by_role("button", name="To blue").click()
    expect(row.get_by_role("cell").nth(1)).to_have_text("blue")
    expect(row.get_by_role("button", name="To green")).to_be_visible()
    with connected(blue.port) as connection:
        assert connection.channel().queue_declare("to.move", passive=True).method.message_count == 20
    until(lambda: "action=switches-back " in stage.log, "the way back in the log")


def test_who_may_not_act_only_sees(stage: Stage, page: WatchedPage, tmp_path: Path) -> None:
    from playwright.sync_api import expect

    own = OwnDashboard(tmp_path / "log", "--connect", stage.control, "--read-only")
    try:
        page.goto(own.url + "upstreams")
        expect(page.page.get_by_role("region", name="Upstream blue")).to_be_visible()
        for action in ("Drain …", "Eject …", "Weight …", "Restore", "Rebalance …"):
            expect(page.page.get_by_role("button", name=action)).to_have_count(0)
    finally:
        own.kill()

"""Clients of AMQP 0-10 on the page: their frames, one of them whole, a filter, the ladder, the topology, a rule."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
import yaml

from amqproxy.amqp010.commands import (
    ExchangeBind,
    ExchangeDeclare,
    ExecutionSync,
    MessageAccept,
    MessageSubscribe,
    QueueDeclare,
)
from amqproxy.amqp010.sequence import SequenceSet
from tests.dashboard.browser.screens import rows, set_filter
from tests.dashboard.browser.stage import Stage
from tests.dashboard.browser.watched_page import WatchedPage
from tests.real.amqp010_peer import Amqp010Peer
from tests.real.poll import until

pytestmark = [pytest.mark.real, pytest.mark.once]  # the page is not compiled


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A proxy, one client of which has declared, published and consumed, and is still there."""
    running = Stage(tmp_path_factory.mktemp("stage"))
    try:
        with Amqp010Peer(running.port) as peer:
            peer.attach()
            peer.send(1, QueueDeclare("orders", sync=True))
            for number in range(3):
                peer.publish(1, b'{"order": %d}' % number, key="orders", tenant="acme")
            peer.subscribe(1, "orders")
            for _ in range(3):
                peer.expect("message.transfer")
            peer.send(1, MessageAccept(SequenceSet([(0, 1)])), ExecutionSync(sync=True))
            peer.expect("session.completed")
            until(lambda: _has_accept(running), "the dashboard to have it all")
            yield running
    finally:
        running.kill()


def _has_accept(stage: Stage) -> bool:
    return any(row.get("method") == "message.accept" for row in stage.get("sources/0/frames?limit=1000")["rows"])


def test_a_filter_shows_the_frames_of_commands(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    page.goto(stage.url + "frames")
    set_filter(page.page, "method == 'message.transfer' && sender == 'client'")
    expect(rows(page.page)).to_have_count(9)
    expect(rows(page.page).filter(has_text="#1 → (default)")).to_have_count(1)
    set_filter(page.page, "body.contains('order') && headers.tenant == 'acme' && sender == 'server'")
    expect(rows(page.page)).to_have_count(9)
    set_filter(page.page, "method == 'message.accept' && sender == 'client'")
    expect(rows(page.page).first).to_contain_text("transfers=0-1")


def test_one_frame_has_its_fields_and_its_bytes(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    page.goto(stage.url + "frames")
    set_filter(page.page, "method == 'queue.declare'")
    expect(rows(page.page)).to_have_count(1)
    rows(page.page).first.click()
    tree = page.page.get_by_role("tree", name="Fields")
    for name in ("first segment", "track", "session header", "packing flags", "durable"):
        expect(tree).to_contain_text(name)
    tree.get_by_role("treeitem").filter(has_text="orders").last.click()
    expect(page.page.get_by_role("group", name="selected are")).to_be_visible()


def test_the_ladder_has_the_ids_of_commands(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    page.goto(stage.url + "sequence")
    section = page.page.get_by_role("region", name="Connection")
    expect(section).to_contain_text("queue.declare")
    expect(section).to_contain_text("#0 queue=orders")
    expect(section).to_contain_text("session.completed")


def test_connections_have_their_protocol_and_sessions_their_names(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    page.goto(stage.url + "connections")
    connections = page.page.get_by_role("group", name="Connections")
    expect(connections.get_by_role("row").filter(has_text="0-10")).to_have_count(1)
    connections.get_by_role("link", name="#1").click()
    sessions = page.page.get_by_role("group", name="Sessions").get_by_role("table")
    expect(sessions.get_by_role("row").nth(1)).to_contain_text("session")
    expect(sessions).not_to_contain_text("no limit")
    sessions.get_by_role("button", name="Close …").click()
    expect(page.page.get_by_role("dialog")).to_contain_text("execution.exception")


def test_the_topology_has_what_clients_of_both_protocols_have_made(stage: Stage, page: WatchedPage) -> None:
    from playwright.sync_api import expect

    parameters = pika.ConnectionParameters("127.0.0.1", stage.port)
    with Amqp010Peer(stage.port) as peer, pika.BlockingConnection(parameters) as other:
        channel = other.channel()
        channel.queue_declare("invoices")
        peer.attach(name=b"topology")
        peer.send(1, ExchangeDeclare("events", "topic"), ExchangeBind("orders", "events", "order.*"))
        peer.send(1, MessageSubscribe("invoices", "late"), ExecutionSync(sync=True))
        peer.expect("session.completed")
        channel.queue_bind("invoices", "events", "invoice.#")
        page.goto(stage.url + "topology")
        nodes = page.page.get_by_role("group", name="Topology:").locator("[role=button]")
        for name in ("events", "orders", "invoices"):
            expect(nodes.filter(has_text=name)).to_have_count(1)
        nodes.filter(has_text="events").focus()
        page.page.keyboard.press("Enter")
        for binding in ("events → orders order.*", "events → invoices invoice.#"):
            expect(page.page.get_by_role("complementary")).to_contain_text(binding)


def test_a_message_becomes_a_rule_that_the_proxy_takes(stage: Stage, page: WatchedPage, tmp_path: Path) -> None:
    from playwright.sync_api import expect

    window: Any = page.page
    window.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(stage.url + "messages")
    set_filter(window, "method == 'message.transfer' && sender == 'client'")
    messages = window.get_by_role("grid", name="Messages").locator(".sheet").get_by_role("row")
    published = messages.filter(has_text="publish")
    expect(published).to_have_count(3)
    published.first.click()
    window.get_by_role("button", name="Export").click()
    window.get_by_role("button", name="Copy as rule").click()
    expect(window.get_by_text("A rule is in the clipboard")).to_be_visible()
    (rule,) = yaml.safe_load(window.evaluate("navigator.clipboard.readText()"))["rules"]
    assert (rule["match"]["method"], rule["match"]["routing_key"]) == ("basic.publish", "orders")


def test_the_next_transfer_and_the_next_request_like_a_row_are_held(stage: Stage, page: WatchedPage) -> None:
    """From a row of Frames, and of Messages; what is held is released from the page."""
    from playwright.sync_api import expect

    window: Any = page.page
    for screen, text, method in (
        ("frames", "message.transfer", "basic.publish"),
        ("messages", "exchange.bind", "queue.bind"),
    ):
        with Amqp010Peer(stage.port) as peer:
            name = f"held {screen}"
            peer.attach(name=name.encode())
            peer.send(
                1, QueueDeclare(name, exclusive=True), ExchangeBind(name, "amq.topic", name), ExecutionSync(sync=True)
            )
            peer.expect("session.completed")
            peer.publish(1, b"1", exchange="amq.topic", key=name)
            peer.expect("session.completed")
            page.goto(stage.url + screen)
            # not the rows of earlier tests, which may be all that is there when the last one is clicked
            set_filter(window, f"method == '{text}' && sender == 'client' && exchange == 'amq.topic'")
            grid = window.get_by_role("grid", name=screen.title()).locator(".sheet").get_by_role("row")
            grid.filter(has_text=text if screen == "frames" else name).last.click()
            window.get_by_role("button", name="Hold the next").click()
            expect(window.locator("header .badge")).to_contain_text("1 rule")
            [rule] = stage.get("sources/0/rules/temporary")["rules"]
            assert rule["name"].startswith(f"hold the next, {method}, exchange amq.topic, key {name}")
            if screen == "frames":
                peer.publish(1, b"2", exchange="amq.topic", key=name)
            else:
                peer.send(1, ExchangeBind(name, "amq.topic", name), ExecutionSync(sync=True))
            dialog = window.get_by_role("dialog")
            expect(dialog).to_contain_text(name)
            dialog.get_by_role("button", name="Release").first.click()
            peer.expect("session.completed")
            expect(window.locator("header .badge")).to_have_count(0)

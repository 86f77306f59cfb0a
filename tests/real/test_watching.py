"""What a running proxy shows of real clients, held against what RabbitMQ itself has."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
import pytest
from textual.widgets import Static

from amqproxy.control import ControlClient
from amqproxy.top.app import TopApp
from amqproxy.top.proxy_source import ProxySource
from tests.real.pika_connection import connected
from tests.real.poll import until
from tests.real.proxy import Proxy, StartProxy, command
from tests.real.rabbitmq import RabbitMQ

pytestmark = [pytest.mark.real, pytest.mark.once]


class WatchedProxy:
    """A proxy that is asked through its control socket."""

    def __init__(self, proxy: Proxy, path: Path) -> None:
        self.proxy = proxy
        self.path = path

    def ask(self, request: str, **keys: Any) -> list[dict[str, Any]]:
        with ControlClient(self.path) as client:
            return client.ask(request, **keys)[request]  # type: ignore[no-any-return]

    def stats(self) -> dict[str, Any]:
        with ControlClient(self.path) as client:
            return client.ask("stats")

    def printed(self, *arguments: str) -> str:
        words = [*command(), "control", *arguments, "--socket", str(self.path)]
        return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout

    def objects(self, **keys: Any) -> set[tuple[Any, ...]]:
        found: set[tuple[Any, ...]] = set()
        for each in self.ask("topology", **keys):
            if each["kind"] == "consumer":
                continue
            names = ("source", "destination", "routing_key") if each["kind"] == "binding" else ("name",)
            found.add((each["kind"], *(each[name] for name in names)))
        return found


@pytest.fixture
def watched(start_proxy: StartProxy, rabbitmq: RabbitMQ, tmp_path: Path) -> Callable[..., WatchedProxy]:
    def start(*rules: dict[str, Any]) -> WatchedProxy:
        proxy = start_proxy(rabbitmq.port, rules=list(rules), control={"path": "control"})
        return WatchedProxy(proxy, tmp_path / "control")

    return start


PASSING = {"name": "count", "action": "tag", "tags": ["seen"], "match": {"method": "queue.declare"}}


@pytest.mark.parametrize("rules", [(), (PASSING,)], ids=["no rules", "rules"])
def test_connections_channels_and_consumers(rules: Any, watched: Callable[..., WatchedProxy]) -> None:
    house = watched(*rules)
    with connected(house.proxy, client_properties={"connection_name": "billing"}, heartbeat=30) as connection:
        channel, other = connection.channel(), connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_qos(prefetch_count=2)
        channel.basic_consume(queue, lambda *_: None, consumer_tag="tag", arguments={"x-priority": 5})
        other.confirm_delivery()
        for _ in range(5):
            other.basic_publish("", queue, b"x")

        def two_delivered() -> bool:
            connection.process_data_events(0)
            return bool(house.ask("channels")[0]["messages"]["server"] == 2)

        until(two_delivered, "as many deliveries as the prefetch allows")
        [entry] = house.ask("connections")
        assert (entry["user"], entry["vhost"], entry["name"], entry["heartbeat"]) == ("guest", "/", "billing", 30)
        assert (entry["mechanism"], entry["tls"], entry["channels"], entry["consumers"]) == ("PLAIN", False, 2, 1)
        one, two = house.ask("channels", session=entry["session"])
        assert (one["prefetch"], one["consumers"], one["mode"], one["unacked"]) == (2, 1, "normal", 2)
        assert (two["mode"], two["unconfirmed"], two["messages"]["client"]) == ("confirm", 0, 5)
        [consumer] = house.ask("consumers")
        shown = [consumer[name] for name in ("queue", "consumer_tag", "no_ack", "exclusive", "prefetch", "arguments")]
        assert shown == [queue, "tag", False, False, 2, {"x-priority": 5}]
        assert "billing" in house.printed("connections")
        assert queue in house.printed("consumers", "--session", str(entry["session"]))
        other.close()
        assert len(house.ask("channels")) == 1
    until(lambda: not house.ask("connections"), "the connection to end")
    assert house.ask("channels") == house.ask("consumers") == []


@pytest.mark.parametrize("rules", [(), (PASSING,)], ids=["no rules", "rules"])
def test_the_topology_is_what_rabbitmq_has(
    rules: Any, watched: Callable[..., WatchedProxy], rabbitmq: RabbitMQ
) -> None:
    """Queue by queue and binding by binding, through what deletes them: clients, connections, and the last consumer."""
    house = watched(*rules)

    def agree() -> set[tuple[Any, ...]]:
        """What the proxy shows, once RabbitMQ has the same queues, bindings and exchanges of these names."""
        there = {each for each in rabbitmq_objects(rabbitmq) if each[1].startswith("watch.")}
        shown = house.objects()
        assert shown == there
        return shown

    with ExitStack() as stack:
        connection = stack.enter_context(connected(house.proxy))
        channel = connection.channel()
        channel.exchange_declare("watch.x", "topic", auto_delete=True)
        channel.exchange_declare("watch.y", "fanout")
        channel.exchange_bind("watch.y", "watch.x", "to.y")
        channel.queue_declare("watch.q")
        channel.queue_declare("watch.exclusive", exclusive=True)
        channel.queue_declare("watch.auto", auto_delete=True)
        for queue in ("watch.q", "watch.exclusive", "watch.auto"):
            channel.queue_bind(queue, "watch.x", "a.*")
        channel.queue_bind("watch.q", "watch.x", "b.*")
        assert len(agree()) == 10
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="PRECONDITION_FAILED"):
            channel.queue_declare("watch.q", durable=True)
        channel = connection.channel()
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="NOT_FOUND"):
            channel.queue_declare("watch.never", passive=True)
        assert len(agree()) == 10
        channel = connection.channel()
        channel.queue_unbind("watch.q", "watch.x", "b.*")
        agree()
        tag = channel.basic_consume("watch.auto", lambda *_: None)
        channel.basic_cancel(tag)
        assert ("queue", "watch.auto") not in agree()
        channel.exchange_unbind("watch.y", "watch.x", "to.y")
        channel.queue_delete("watch.q")
        agree()
        connection.close()
        until(lambda: ("queue", "watch.exclusive") not in rabbitmq_objects(rabbitmq), "it to go")
        assert agree() == {("exchange", "watch.y")}
        with connected(house.proxy) as another:
            another.channel().exchange_delete("watch.y")
    assert agree() == set()
    deleted = {each["name"]: each["deleted_for"] for each in house.ask("topology", deleted=True) if "name" in each}
    assert deleted == {
        "watch.auto": "auto-delete",
        "watch.q": "deleted",
        "watch.exclusive": "exclusive",
        "watch.x": "auto-delete",
        "watch.y": "deleted",
    }
    assert "watch.exclusive" in house.printed("topology", "--deleted")


OBJECTS = r"""
Name = fun({resource, _, _, Of}) -> Of end,
Queues = [[queue, Name(amqqueue:get_name(Each))] || Each <- rabbit_amqqueue:list(<<"/">>)],
Exchanges = [[exchange, Name(Of)] || [{name, Of}] <- rabbit_exchange:info_all(<<"/">>, [name])],
Columns = [source_name, destination_name, routing_key],
Bindings = [[binding | [Value || {_, Value} <- Each]] || Each <- rabbit_binding:info_all(<<"/">>, Columns)],
io:format("~ts~n", [rabbit_json:encode(Queues ++ Exchanges ++ Bindings)]).
"""
"""All at once: rabbitmqctl takes most of a second to start."""


def rabbitmq_objects(rabbitmq: RabbitMQ) -> set[tuple[str, ...]]:
    """What there is in RabbitMQ, as `objects` has it."""
    found, _, _ = rabbitmq.ctl("eval", OBJECTS).partition("\n")
    return {tuple(each) for each in json.loads(found)}


def test_rules_show_the_clients_names(watched: Callable[..., WatchedProxy], rabbitmq: RabbitMQ) -> None:
    rename = {"name": "tenant", "action": "rewrite", "queue": {"prefix": "tenant."}}
    deny = {"name": "no", "action": "refuse", "match": {"method": "queue.declare", "queue": "denied"}}
    house = watched(deny, rename)
    with connected(house.proxy) as connection:
        with pytest.raises(pika.exceptions.ChannelClosedByBroker):
            connection.channel().queue_declare("denied")
        channel = connection.channel()
        channel.queue_declare("mine", exclusive=True)
        channel.basic_consume("mine", lambda *_: None)
        assert ("queue", "tenant.mine") in rabbitmq_objects(rabbitmq)
        assert house.objects() == {("queue", "mine")}
        assert [each["queue"] for each in house.ask("consumers")] == ["mine"]


def test_stats_and_top(watched: Callable[..., WatchedProxy]) -> None:
    house = watched()

    async def look(connection: Any) -> None:
        app = TopApp(ProxySource(house.path), None)
        async with app.run_test(size=(200, 30)) as pilot:
            await app.refresh_view()
            channel = connection.channel()
            queue = channel.queue_declare("", exclusive=True).method.queue
            channel.confirm_delivery()
            channel.basic_publish("", queue, b"x")
            await app.refresh_view()
            await pilot.pause()
            shown = "\n".join(strip.text for strip in app.screen._compositor.render_strips())
            assert "connections 1" in shown
            assert "publish → confirm -" not in shown
            assert "watcher" in shown
            await pilot.press("4")
            await app.refresh_view()
            await pilot.pause()
            shown = "\n".join(strip.text for strip in app.screen._compositor.render_strips())
            assert queue in shown

    with connected(house.proxy, client_properties={"connection_name": "watcher"}) as connection:
        asyncio.run(look(connection))
        response = house.stats()
        values = {each["name"]: each["value"] for each in response["metrics"]}
        assert values["amqproxy_messages_confirmed_total"] == 1
        assert response["stats"]["lag"]["most"] >= 0
    assert "amqproxy_channels" in house.printed("stats")


def test_top_survives_a_restart(
    watched: Callable[..., WatchedProxy], start_proxy: StartProxy, rabbitmq: RabbitMQ
) -> None:
    house = watched()

    async def look() -> None:
        app = TopApp(ProxySource(house.path), None)
        async with app.run_test(size=(200, 30)):
            status = app.query_one("#status", Static)
            await app.refresh_view()
            assert "0 of 0 connections" in str(status.render())
            house.proxy.kill()
            await app.refresh_view()
            assert "not connected" in str(status.render())
            proxy = await asyncio.to_thread(start_proxy, rabbitmq.port, control={"path": str(house.path)})
            with connected(proxy):
                await app.refresh_view()
                assert "1 of 1 connections" in str(status.render())

    asyncio.run(look())

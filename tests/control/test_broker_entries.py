"""A broker by itself, as the control socket lists it."""

from __future__ import annotations

from amqproxy.amqp091.frame import encode_method
from amqproxy.amqp091.methods import (
    BasicConsume,
    BasicPublish,
    BasicQos,
    ConfirmSelect,
    ExchangeBind,
    ExchangeDeclare,
    QueueBind,
)
from amqproxy.amqp091.wire import Table
from amqproxy.control.broker_entries import (
    chosen_consumers,
    served_channels,
    served_consumers,
    served_entry,
    session_entry,
    topology_entries,
)
from amqproxy.control.session_entries import channel_entries, connection_entry, consumer_entries
from tests.control.fake_sessions import opened
from tests.control.served import Serving


def test_a_connection_with_its_channels_and_consumers() -> None:
    serving = Serving()
    serving.client.send(1, ConfirmSelect())
    serving.client.send(1, BasicQos(prefetch_count=3))
    serving.client.send(1, BasicConsume(queue="q", consumer_tag="c", exclusive=True))
    for _ in range(5):
        serving.client.publish("", "q", b"body")
    serving.client.channel(2)
    serving.client.send(2, BasicQos(prefetch_count=7, global_=True))
    serving.client.receive()
    entry = served_entry(serving.one)
    assert (entry["session"], entry["connection"], entry["state"]) == (1, "client-broker", "open")
    assert (entry["user"], entry["vhost"], entry["mechanism"], entry["tls"]) == ("guest", "/", "PLAIN", False)
    assert (entry["channels"], entry["consumers"], entry["connected_at"]) == (2, 1, 1.5)
    assert session_entry(serving.one)["channels"] == 2
    first, second = served_channels(serving.one)
    assert (first["channel"], first["mode"], first["prefetch"], first["unacked"]) == (1, "confirm", 3, 3)
    assert (first["messages"], first["open_content"]["client"]) == ({"client": 5, "server": 3}, None)
    assert (second["mode"], second["prefetch"], second["global_prefetch"]) == ("normal", 0, 7)
    [consumer] = served_consumers(serving.one)
    assert (consumer["channel"], consumer["consumer_tag"], consumer["queue"]) == (1, "c", "q")
    assert (consumer["exclusive"], consumer["no_ack"], consumer["prefetch"]) == (True, False, 3)


def test_a_message_that_is_sent_in_part() -> None:
    serving = Serving()
    serving.client.feed(encode_method(1, BasicPublish()))
    [channel] = served_channels(serving.one)
    assert channel["open_content"] == {"client": "basic.publish", "server": None}


def test_a_client_that_has_not_logged_in() -> None:
    serving = Serving(is_open=False)
    entry = served_entry(serving.one)
    assert (entry["user"], entry["vhost"], entry["state"], entry["mechanism"]) == ("", "", "new", "")


def test_the_topology() -> None:
    serving = Serving()
    serving.client.send(1, ExchangeDeclare(exchange="x", type="topic", arguments=Table({"a": 1})))
    serving.client.send(1, QueueBind(queue="q", exchange="x", routing_key="k.*"))
    serving.client.send(1, ExchangeBind(destination="x", source="amq.fanout"))
    serving.client.send(1, BasicConsume(queue="q", consumer_tag="c"))
    serving.client.receive()
    every = list(topology_entries(serving.broker, None, 7.0))
    own = [each for each in every if not each.get("name", "amq.").startswith("amq.") and each.get("name")]
    assert [(each["kind"], each["name"]) for each in own] == [("exchange", "x"), ("queue", "q")]
    assert (own[0]["type"], own[0]["arguments"], own[1]["consumers"]) == ("topic", {"a": 1}, 1)
    ends = [(each["source"], each["destination_type"], each["destination"], each["routing_key"]) for each in every[-2:]]
    assert sorted(ends) == [("amq.fanout", "exchange", "x", ""), ("x", "queue", "q", "k.*")]
    assert {(each["state"], each["seen_at"]) for each in every} == {("declared", 7.0)}
    assert list(topology_entries(serving.broker, "other", 7.0)) == []
    assert [each and each["kind"] for each in chosen_consumers([serving.one], "/")] == ["consumer", None]
    assert list(chosen_consumers([serving.one], "other")) == [None]


async def test_it_has_the_keys_that_a_proxy_has() -> None:
    """So that what reads the one reads the other."""
    serving = Serving()
    serving.client.send(1, BasicConsume(queue="q", consumer_tag="c"))
    serving.client.receive()
    async with opened() as proxy:
        await proxy.stage.play(">> 1: basic.consume\n<< 1: basic.consume-ok")
        for ours, theirs in (
            (served_entry(serving.one), connection_entry(proxy.session)),
            (next(served_channels(serving.one)), next(channel_entries([proxy.session]))),
            (next(served_consumers(serving.one)), next(consumer_entries([proxy.session]))),
        ):
            assert ours.keys() == theirs.keys()

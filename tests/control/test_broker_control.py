"""The integrated broker as the control socket shows it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from amqproxy.amqp010.commands import DtxEnd, DtxPrepare, DtxSelect, DtxStart, MessageAccept
from amqproxy.amqp010.results import Xid
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp091.methods import BasicAck, BasicConsume, BasicGet, BasicNack, BasicQos, QueuePurge
from amqproxy.broker.broker import Broker
from amqproxy.control.broker_control import BrokerControl
from amqproxy.control.request import parse
from amqproxy.control.request_error import RequestError
from amqproxy.taps.record import encoded
from tests.broker.amqp010.client import Client010
from tests.broker.client import Client


class Asked:
    """A broker with one client."""

    def __init__(self, *, is_hidden: bool = False) -> None:
        self.broker = Broker()
        self.client = Client(self.broker)
        self.client.open()
        self.client.channel()
        self.client.declare("q", arguments={"x-max-length": 1000})
        self.control = BrokerControl(self.broker, lambda: is_hidden)

    def ask(self, request: str, **keys: Any) -> list[dict[str, Any]]:
        line = msgspec.json.encode({"request": f"broker-{request}", **keys})
        _, entries = self.control.entries(parse(line))  # type: ignore[arg-type]
        return [msgspec.json.decode(encoded(each)) for each in entries if each is not None]

    def queue(self) -> dict[str, Any]:
        [queue] = self.ask("queues")
        return queue


def test_a_queue_and_what_has_become_of_its_messages() -> None:
    asked = Asked()
    queue = asked.queue()
    assert (queue["vhost"], queue["name"], queue["type"], queue["consumers"]) == ("/", "q", "classic", 0)
    assert queue["arguments"] == {"x-max-length": 1000}
    for number in range(5):
        asked.client.publish("", "q", b"%d" % number)
    asked.client.send(1, BasicQos(prefetch_count=2))
    asked.client.send(1, BasicConsume(queue="q", consumer_tag="c"))
    asked.client.receive()
    names = ("messages", "ready", "unacked", "ready_bytes", "consumers", "entered", "left")
    assert [asked.queue()[name] for name in names] == [5, 3, 2, 3, 1, 5, 2]
    asked.client.send(1, BasicAck(1))
    asked.client.send(1, BasicNack(2, requeue=True))
    asked.client.receive()
    queue = asked.queue()
    assert (queue["messages"], queue["entered"]) == (4, 5)
    asked.client.send(1, QueuePurge(queue="q"))
    asked.client.receive()
    assert asked.queue()["left"] == 5


def test_queues_of_one_virtual_host() -> None:
    asked = Asked()
    asked.broker.add_vhost("other")
    assert asked.ask("queues", vhost="other") == []
    assert len(asked.ask("queues", vhost="/")) == 1


def test_transactions() -> None:
    asked = Asked()
    client = Client010(asked.broker).open()
    session = client.session()
    session.call(DtxSelect())
    session.transfer(b"before")
    session.subscribe("q", "d", messages=1)
    session.call(DtxStart(Xid(4, b"global", b"branch")))
    session.call(MessageAccept(SequenceSet.of([session.messages[0][0]])))
    session.transfer(b"after")
    [branch] = asked.ask("transactions")
    assert branch.pop("bytes") > 11
    assert branch == {
        "vhost": "/",
        "format": 4,
        "global_id": b"global".hex(),
        "branch_id": b"branch".hex(),
        "state": "active",
        "timeout": 60,
        "sessions": 1,
        "published": 1,
        "accepted": 1,
    }
    session.call(DtxEnd(Xid(4, b"global", b"branch")))
    session.call(DtxPrepare(Xid(4, b"global", b"branch")))
    [branch] = asked.ask("transactions", vhost="/")
    assert (branch["state"], branch["sessions"], branch["accepted"]) == ("prepared", 0, 1)
    assert asked.ask("transactions", vhost="other") == []


def test_a_client() -> None:
    asked = Asked()
    Client(asked.broker)  # one that has not logged in
    asked.client.publish("", "q", b"x")
    asked.client.send(1, BasicConsume(queue="q", consumer_tag="c"))
    asked.client.receive()
    [one] = asked.ask("connections")
    assert (one["connection"], one["user"], one["vhost"], one["blocked"]) == ("client -> broker", "guest", "/", False)
    assert (one["channels"], one["consumers"], one["unacked"], one["frame_max"]) == (1, 1, 1, 131_072)


def test_messages_are_shown_and_stay() -> None:
    asked = Asked()
    for number in range(4):
        asked.client.publish("", "q", b"%d" % number * 10, content_type="text/plain", headers={"n": number})
    asked.client.send(1, BasicGet(queue="q"))
    asked.client.receive()
    asked.client.send(1, BasicNack(1, requeue=True))
    asked.client.receive()
    for _ in range(2):
        first, second = asked.ask("messages", queue="q", count=2, body=3)
        assert first["properties"] == {"content_type": "text/plain", "headers": {"n": 0}}
        assert (first["place"], first["routing_key"], first["size"], first["body"]) == (0, "q", 10, "000")
        assert second["body"] == "111"
    assert [each["place"] for each in asked.ask("messages", queue="q", skip=3)] == [3]
    assert asked.queue()["ready"] == 4


def test_where_rules_redact_nothing_is_shown_but_where_it_goes() -> None:
    asked = Asked(is_hidden=True)
    asked.client.publish("", "q", b"card 4111", headers={"card": "4111"})
    [one] = asked.ask("messages", queue="q")
    assert one == {"place": 0, "exchange": "", "routing_key": "q", "size": 9, "redacted": True}


def test_a_queue_that_there_is_not() -> None:
    for keys in ({"queue": "none"}, {"queue": "q", "vhost": "none"}):
        with pytest.raises(RequestError, match="there is no queue") as refused:
            Asked().ask("messages", **keys)
        assert refused.value.name == "no-queue"


def test_a_client_of_0_10_is_one_of_its_clients() -> None:
    asked = Asked()
    session = Client010(asked.broker).open().session()
    session.subscribe("q", "d")
    of_0_9_1, of_0_10 = asked.ask("connections")
    assert of_0_10.keys() == of_0_9_1.keys()
    assert [of_0_10[name] for name in ("user", "vhost", "channels", "consumers")] == ["guest", "/", 1, 1]

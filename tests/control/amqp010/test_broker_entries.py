"""Clients of AMQP 0-10 that the integrated broker serves, as they are listed."""

from __future__ import annotations

from amqproxy.amqp010.commands import DtxSelect, MessageSubscribe, QueueDeclare, TxSelect
from amqproxy.amqp010.frame import encode_method
from amqproxy.broker.amqp091.connection import Amqp091Connection
from amqproxy.broker.broker import Broker
from amqproxy.broker.server.connection_tap import ConnectionTap
from amqproxy.broker.server.served_connection import ServedConnection
from amqproxy.control.broker_entries import served_channels, served_consumers, served_entry, session_entry
from amqproxy.taps.metrics import Metrics
from tests.broker.amqp010.client import Client010
from tests.control.served import Serving
from tests.proxy.amqp010_script import LOGIN, transfer


class Served010:
    """A broker with one client of 0-10, as its server lists it; what it sends is counted."""

    def __init__(self) -> None:
        self.broker = Broker()
        self.client = Client010(self.broker)
        first = Amqp091Connection(self.broker, is_loopback=True, wake=lambda: None, name=self.client.connection.name)
        first.step_aside()
        self.tap = ConnectionTap(None, 1, "c", is_tls=False, metrics=Metrics())
        self.one = ServedConnection(1, first, 1.5, None, self.tap, lambda: self.client.connection)


def test_a_client_with_a_session_and_a_subscription() -> None:
    served = Served010()
    assert served_entry(served.one)["state"] == "opening"
    served.client.open()
    session = served.client.session()
    declare, subscribe = QueueDeclare(queue="q"), MessageSubscribe("q", "d", 1, 0)
    for each in (declare, subscribe, TxSelect()):
        served.client.send(1, each)
    assert session is not None
    served.tap.received(LOGIN[0][1])
    served.tap.received(encode_method(1, declare) + transfer(b"x"))
    entry = served_entry(served.one)
    assert {
        "session": 1,
        "connection": "127.0.0.1:1-127.0.0.1:2",
        "protocol": "0-10",
        "state": "open",
        "user": "guest",
        "vhost": "/",
        "channels": 1,
        "consumers": 1,
        "channel_max": 100,
        "frame_max": 65_535,
    }.items() <= entry.items()
    assert {"state": "open", "channels": 1, "user": "guest"}.items() <= session_entry(served.one).items()
    (channel,) = served_channels(served.one)
    assert {"channel": 1, "session_name": "s", "mode": "tx", "consumers": 1, "unacked": 0}.items() <= channel.items()
    assert channel["messages"] == {"client": 1, "server": 0}
    (consumer,) = served_consumers(served.one)
    assert {"consumer_tag": "d", "queue": "q", "no_ack": True, "channel": 1}.items() <= consumer.items()
    served.client.names()
    served.client.session(2, b"t")
    served.client.send(2, DtxSelect())
    assert [each["mode"] for each in served_channels(served.one)] == ["tx", "dtx"]
    served.client.connection.close("bye", 0.0)
    served.client.connection.give_up(0.0)
    assert served_entry(served.one)["state"] in ("closed", "open")


def test_the_keys_are_those_of_0_9_1() -> None:
    served, other = Served010(), Serving()
    served.client.open()
    served.client.session()
    assert set(served_entry(served.one)) == set(served_entry(other.one))
    assert set(session_entry(served.one)) == set(session_entry(other.one))
    (channel,), (of_091,) = served_channels(served.one), served_channels(other.one)
    assert set(channel) == {*of_091, "session_name"}

"""A broker with one client, as its server lists it."""

from __future__ import annotations

from amqproxy.broker.broker import Broker
from amqproxy.broker.server.served_connection import ServedConnection
from tests.broker.client import Client


class Serving:
    """A broker whose one client has a channel and a queue q, unless it only `is_open` false."""

    def __init__(self, *, is_open: bool = True) -> None:
        self.broker = Broker()
        self.client = Client(self.broker)
        if is_open:
            self.client.open()
            self.client.channel()
            self.client.declare("q")
        self.served = {1: ServedConnection(1, self.client.connection, 1.5, None, None)}

    @property
    def one(self) -> ServedConnection:
        return self.served[1]

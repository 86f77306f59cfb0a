"""A client that a test plays, whose requests are observed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.frame import Frame, encode_method
from amqproxy.amqp091.methods import (
    ChannelOpen,
    ChannelOpenOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.taps.topology.client_requests import OBSERVED, ClientRequests
from amqproxy.taps.topology.observed_objects import Actor, Observation
from amqproxy.taps.topology.observed_topology import ObservedTopology


class ObservedClient:
    """A client with two open channels. Each method goes through a connection, which must take it.

    Time goes on by a second with each method. `covering` is what people may see of a method.
    """

    def __init__(self, topology: ObservedTopology, number: int = 1, user: str = "guest", vhost: str = "/") -> None:
        self.topology = topology
        self.requests = ClientRequests(topology)
        self.actor = Actor(number, user, f"10.0.0.{number}:4711")
        self.covering: Callable[[Method], Method | None] = lambda method: method
        self.now = 0.0
        self._vhost = vhost
        self._connection = Connection()
        self._connection.receive_header(CLIENT, HEADER)
        for sender, method in (
            (SERVER, ConnectionStart()),
            (CLIENT, ConnectionStartOk()),
            (SERVER, ConnectionTune()),
            (CLIENT, ConnectionTuneOk()),
            (CLIENT, ConnectionOpen(vhost)),
            (SERVER, ConnectionOpenOk()),
        ):
            self._pass(sender, 0, method)
        for channel in (1, 2):
            self.client(ChannelOpen(), channel)
            self.server(ChannelOpenOk(), channel)
        self.now = 0.0

    def client(self, method: Method, channel: int = 1) -> None:
        """The client sends it."""
        self._pass(CLIENT, channel, method)

    def server(self, method: Method, channel: int = 1) -> None:
        """The broker sends it."""
        self._pass(SERVER, channel, method)

    def ask(self, request: Method, reply: Method, channel: int = 1) -> None:
        """The client sends a request, and is answered."""
        self.client(request, channel)
        self.server(reply, channel)

    def end(self) -> None:
        self.requests.end(self)

    def _pass(self, sender: Peer, channel: int, method: Method) -> None:
        self.now += 1
        frame = Frame(encode_method(channel, method))
        if self._connection.receive(sender, frame) and OBSERVED[sender][frame.index]:
            self.requests.take(self, sender, channel, frame.method, frame.size)

    def observation(self) -> Observation:
        return Observation(self._vhost, self._vhost, self.actor, self.now)

    def cover(self, sender: Peer, channel: int, method: Method) -> Method | None:
        return self.covering(method)


def entries(topology: ObservedTopology, vhost: str | None = None, *, deleted: bool = False) -> list[dict[str, Any]]:
    """The objects of a topology, as JSON has them."""
    found = [*topology.entries(vhost), *(topology.deleted(vhost) if deleted else ())]
    return msgspec.json.decode(msgspec.json.encode(found))  # type: ignore[no-any-return]


def names(topology: ObservedTopology, **options: Any) -> list[str]:
    """What there is, in short words; with a question mark where that is not sure."""
    found = []
    for each in entries(topology, **options):
        if each["kind"] == "binding":
            name = f"{each['source']} -{each['routing_key']}-> {each['destination']}"
        else:
            name = f"{each['kind']} {each['name']}"
        mark = {"declared": "", "unsure": "?", "deleted": f" {each.get('deleted_for')}"}[each["state"]]
        found.append(name + mark)
    return found

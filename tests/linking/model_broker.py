"""A broker that is made up, and the events that its clients' connections show, with the truth about each delivery.

A run is what a seed makes of it: several connections publish with confirms, in transactions or without, some alike
contents, some with a message_id; queues deliver in order, or out of it; consumers ack, requeue and reject; rejected and
expired messages are dead-lettered; connections are cut, and the broker has not read their last acks.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Any
from uuid import UUID

import msgspec

from amqproxy.amqp010.commands import MessageTransfer
from amqproxy.amqp010.properties import Header, MessageProperties
from amqproxy.amqp091.methods import BasicDeliver, BasicPublish, BasicReturn
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from amqproxy.taps.amqp010.transfers import TransferDelivery, TransferProperties, TransferPublish, TransferReturn
from amqproxy.taps.trace.events import (
    ConnectionClosed,
    ConnectionOpened,
    DeliveriesSettled,
    HistoryLost,
    MessageDelivered,
    MessagePublished,
    MessageReturned,
    PublishesSettled,
    Settlement,
    TraceEvent,
)
from amqproxy.taps.trace.open_tags import Span

Show = Callable[[int, TraceEvent, "Message | None"], None]
"""Takes the number of a connection, an event and, with a delivery, its message."""

KEYS = {("x", "a"): ("q1",), ("x", "b"): ("q1", "q2"), ("", "q2"): ("q2",), ("x", "nowhere"): ()}
"""Queues of each exchange and routing key."""

DEAD_LETTERS = {"q1": "q2", "q2": "dead"}
"""Queue to which each queue's dead letters are routed, by the exchange "dlx"."""


class Message(msgspec.Struct, eq=False):
    """A message in a queue, and the publish that it came from: its connection and its number."""

    stream: int
    number: int
    exchange: str
    routing_key: str
    message_id: str | None
    body: bytes
    redelivered: bool = False
    deaths: tuple[tuple[str, str, str, str], ...] = ()
    """Queue, reason, exchange and routing key, the newest first."""

    @property
    def publish(self) -> tuple[int, int]:
        return self.stream, self.number


class Client(msgspec.Struct, eq=False):
    stream: int
    mode: str
    published: int = 0
    tag: int = 0
    ts_of: dict[int, int] = {}
    open: dict[int, tuple[str, Message, int]] = {}
    """By tag: the queue, the message, and when it was delivered."""
    uncommitted: list[Message] = []


class ModelBroker:
    """Runs random steps. `is_joined` hides what came before the middle of the run."""

    def __init__(self, seed: int, show: Show, *, protocol: str, is_joined: bool = False) -> None:
        self.chosen = random.Random(seed)
        self.show = show
        self.is_amqp010 = protocol == "0-10"
        self.is_joined = is_joined
        self.is_shown = not is_joined
        self.is_fifo = self.chosen.random() < 0.5
        self.ids = self.chosen.choice((0.0, 0.5, 1.0))
        self.contents = self.chosen.choice((1, 3, 100))
        self.ts_ns = 1_700_000_000_000_000_000
        self.queues: dict[str, deque[Message]] = {"q1": deque(), "q2": deque(), "dead": deque()}
        self.clients: list[Client] = []
        self.streams = 0
        self.next_id = 0

    def run(self, steps: int) -> None:
        for _ in range(3):
            self.connect()
        kinds = ("publish", "publish", "publish", "deliver", "deliver", "deliver", "settle", "settle", "expire", "cut")
        for step in range(steps):
            self.ts_ns += self.chosen.randint(1, 5)
            if self.is_joined and step == steps // 3:
                self.join()
            kind = self.chosen.choices(kinds, (3, 3, 3, 3, 3, 3, 4, 4, 1, 0.3))[0]
            getattr(self, kind)(self.chosen.choice(self.clients))

    # --- connections

    def connect(self) -> None:
        self.streams += 1
        client = Client(self.streams, self.chosen.choice(("confirm", "tx", "none")))
        self.clients.append(client)
        self._event(client, self._opened())

    def _opened(self) -> ConnectionOpened:
        return ConnectionOpened(
            self.ts_ns,
            virtual_host="/",
            mechanism="PLAIN",
            user="guest",
            client_properties=None,
            server_properties=None,
            channel_max=0,
            frame_max=0,
            heartbeat=0,
            latency_ns=None,
        )

    def join(self) -> None:
        self.is_shown = True
        for client in self.clients:
            self._event(client, HistoryLost(self.ts_ns, sender=None, reason="joined"))
            self._event(client, self._opened())

    def cut(self, client: Client) -> None:
        """Cut a connection: what it has not settled is delivered again, and some of what it has just acked."""
        for queue, message, _ in reversed(client.open.values()):
            self._requeue(queue, message)
        if client.open and self.chosen.random() < 0.7:
            self._settle(client, Settlement.ACKED, requeue=False, count=1)  # the broker does not read it
        for tag in list(client.open):
            self._settled(client, Settlement.OPEN, tag, tag, client.open[tag][2], requeue=False)
        if client.uncommitted:
            self._publishes(client, Settlement.OPEN, client.uncommitted)
        self._event(client, ConnectionClosed(self.ts_ns, by=None, code=0, text="reset"))
        self.clients.remove(client)
        self.connect()

    # --- publishes

    def publish(self, client: Client) -> None:
        exchange, routing_key = self.chosen.choice(list(KEYS))
        message_id = None
        if self.chosen.random() < self.ids:
            self.next_id += 1
            message_id = str(UUID(int=self.next_id))
        body = b"%d" % self.chosen.randrange(self.contents)
        self._publish(client, exchange, routing_key, message_id, body)

    def _publish(
        self, client: Client, exchange: str, routing_key: str, message_id: str | None, body: bytes, deaths: Any = ()
    ) -> None:
        client.published += 1
        message = Message(client.stream, client.published, exchange, routing_key, message_id, body, deaths=deaths)
        client.ts_of[message.number] = self.ts_ns
        is_mandatory = self.chosen.random() < 0.5
        method: Any = BasicPublish(exchange=exchange, routing_key=routing_key, mandatory=is_mandatory)
        if self.is_amqp010:
            method = TransferPublish(
                transfer=MessageTransfer(destination=exchange),
                exchange=exchange,
                routing_key=routing_key,
                mandatory=is_mandatory,
                immediate=False,
            )
        event = MessagePublished(
            self.ts_ns,
            1,
            1,
            number=message.number,
            method=method,
            properties=self._properties(message),
            size=len(body),
            body=body,
            confirm_tag=message.number if client.mode == "confirm" else None,
            awaits=client.mode != "none",
        )
        self._event(client, event)
        if client.mode == "tx":
            client.uncommitted.append(message)
            if self.chosen.random() < 0.4:
                self._end_transaction(client)
            return
        is_nacked = client.mode == "confirm" and self.chosen.random() < 0.1
        if not is_nacked:
            self._route(message)
        if is_mandatory and not KEYS.get((exchange, routing_key), ()):
            self._return(client, message)
        if client.mode == "confirm":
            self._publishes(client, Settlement.NACKED if is_nacked else Settlement.CONFIRMED, [message])

    def _return(self, client: Client, message: Message) -> None:
        route = {"exchange": message.exchange, "routing_key": message.routing_key}
        method: Any = BasicReturn(reply_code=312, reply_text="NO_ROUTE", **route)
        if self.is_amqp010:
            method = TransferReturn(transfer=MessageTransfer(), reply_code=1, reply_text="", **route)
        event = MessageReturned(
            self.ts_ns, 1, 1, number=message.number, method=method, properties=self._properties(message), size=1
        )
        self._event(client, event)

    def _end_transaction(self, client: Client) -> None:
        messages, client.uncommitted = client.uncommitted, []
        is_committed = self.chosen.random() < 0.6
        if is_committed:
            for message in messages:
                self._route(message)
        if self.chosen.random() < 0.3:
            self.deliver(self.chosen.choice(self.clients))  # before the publisher is told
        self._publishes(client, Settlement.COMMITTED if is_committed else Settlement.ROLLED_BACK, messages)

    def _publishes(self, client: Client, outcome: Settlement, messages: list[Message]) -> None:
        spans = tuple(Span(each.number, each.number, client.ts_of[each.number]) for each in messages)
        self._event(client, PublishesSettled(self.ts_ns, 1, 1, outcome=outcome, spans=spans))

    def _route(self, message: Message) -> None:
        for queue in KEYS.get((message.exchange, message.routing_key), ()):
            if self.chosen.random() < 0.95:  # else the queue's limit drops it
                self.queues[queue].append(msgspec.structs.replace(message))

    # --- deliveries

    def deliver(self, client: Client) -> None:
        name = self.chosen.choice(list(self.queues))
        queue = self.queues[name]
        if not queue:
            return
        place = 0 if self.is_fifo or self.chosen.random() < 0.7 else self.chosen.randrange(len(queue))
        message = queue[place]
        del queue[place]
        client.tag += 1
        exchange, routing_key = message.exchange, message.routing_key
        if message.deaths and message.deaths[0][1] != "published":
            exchange, routing_key = "dlx", message.deaths[0][0]
        method: Any = BasicDeliver("c", client.tag, message.redelivered, exchange, routing_key)
        if self.is_amqp010:
            method = TransferDelivery(
                transfer=MessageTransfer(destination="c"),
                exchange=exchange,
                routing_key=routing_key,
                redelivered=message.redelivered,
                delivery_tag=client.tag,
                consumer_tag="c",
            )
        awaits = self.chosen.random() < 0.8
        event = MessageDelivered(
            self.ts_ns,
            1,
            1,
            method=method,
            properties=self._properties(message),
            size=len(message.body),
            body=message.body,
            queue=name if self.chosen.random() < 0.95 else None,
            awaits=awaits,
        )
        self._event(client, event, message)
        if awaits:
            client.open[client.tag] = (name, message, self.ts_ns)

    def settle(self, client: Client) -> None:
        outcome = self.chosen.choice((Settlement.ACKED, Settlement.ACKED, Settlement.NACKED, Settlement.REJECTED))
        requeue = outcome != Settlement.ACKED and self.chosen.random() < 0.6
        taken = self._settle(client, outcome, requeue=requeue, count=self.chosen.randint(1, 3))
        for name, message in reversed(taken):
            if requeue:
                self._requeue(name, message)
            elif outcome != Settlement.ACKED:
                self._dead_letter(name, message, "rejected")
            elif self.chosen.random() < 0.1:  # a consumer that publishes it again, with its headers
                deaths = tuple((queue, "published", *rest) for queue, _, *rest in message.deaths)
                self._publish(self.chosen.choice(self.clients), "", "q2", message.message_id, message.body, deaths)

    def _settle(self, client: Client, outcome: Settlement, *, requeue: bool, count: int) -> list[tuple[str, Message]]:
        taken = []
        for tag in list(client.open)[:count]:
            name, message, ts_ns = client.open[tag]
            self._settled(client, outcome, tag, tag, ts_ns, requeue=requeue)
            taken.append((name, message))
        return taken

    def _settled(
        self, client: Client, outcome: Settlement, first: int, last: int, ts_ns: int, *, requeue: bool
    ) -> None:
        client.open.pop(first, None)
        spans = (Span(first, last, ts_ns, "c"),)
        self._event(client, DeliveriesSettled(self.ts_ns, 1, 1, outcome=outcome, spans=spans, requeue=requeue))

    def _requeue(self, name: str, message: Message) -> None:
        message.redelivered = True
        self.queues[name].appendleft(message)

    def expire(self, client: Client) -> None:
        name = self.chosen.choice(list(self.queues))
        if self.queues[name]:
            self._dead_letter(name, self.queues[name].popleft(), "expired")

    def _dead_letter(self, name: str, message: Message, reason: str) -> None:
        target = None if self.is_amqp010 else DEAD_LETTERS.get(name)
        if target is not None:
            exchange, routing_key = message.exchange, message.routing_key
            if message.deaths and message.deaths[0][1] != "published":
                exchange, routing_key = "dlx", message.deaths[0][0]
            deaths = ((name, reason, exchange, routing_key), *message.deaths)
            self.queues[target].append(msgspec.structs.replace(message, deaths=deaths, redelivered=False))

    # --- what is shown

    def _properties(self, message: Message) -> Any:
        headers = None
        if message.deaths:
            entries = [
                {"count": 1, "reason": reason, "queue": queue, "exchange": exchange, "routing-keys": [routing_key]}
                for queue, reason, exchange, routing_key in message.deaths
            ]
            headers = {"x-death": entries}
        if self.is_amqp010:
            return TransferProperties(
                Header(
                    (MessageProperties(message_id=None if message.message_id is None else UUID(message.message_id)),)
                )
            )
        return Properties(message_id=message.message_id, headers=None if headers is None else Table(headers))

    def _event(self, client: Client, event: TraceEvent, message: Message | None = None) -> None:
        if self.is_shown:
            self.show(client.stream, event, message)

"""The integrated broker as the control socket shows it: its queues, their messages, and its clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.broker.broker import Broker
from amqproxy.broker.message import Message
from amqproxy.broker.queues.paged_messages import UNREADABLE
from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.vhost import VirtualHost
from amqproxy.control.broker_entries import product
from amqproxy.control.client_name import client_name, shown_text
from amqproxy.control.dialects import Entry, branch_entry, broker_dialect
from amqproxy.control.held_commands import shown_body
from amqproxy.control.request import (
    ListBrokerConnections,
    ListBrokerQueues,
    ListBrokerTransactions,
    ShowBrokerMessages,
)
from amqproxy.control.request_error import RequestError
from amqproxy.taps.record import json_mapping

BrokerRequest = ListBrokerQueues | ListBrokerConnections | ListBrokerTransactions | ShowBrokerMessages


class BrokerControl:
    """Source of lists about a broker; bodies and properties are left out while `is_hidden` returns True."""

    def __init__(self, broker: Broker, is_hidden: Callable[[], bool] = lambda: False) -> None:
        self._broker = broker
        self._is_hidden = is_hidden

    def entries(self, request: BrokerRequest) -> tuple[str, Iterator[Any]]:
        """Return the key of a response's list, and the entries; raise `RequestError` if they cannot be listed."""
        match request:
            case ListBrokerQueues():
                return "queues", self._queues(request.vhost)
            case ListBrokerConnections():
                return "connections", self._connections()
            case ListBrokerTransactions():
                return "transactions", self._transactions(request.vhost)
            case ShowBrokerMessages():
                return "messages", self._messages(request)

    def _queues(self, vhost: str | None) -> Iterator[Entry]:
        for each in list(self._broker.vhosts.values()):
            if vhost in (None, each.name):
                for queue in list(each.queues.values()):
                    if not queue.is_deleted:
                        yield queue_entry(each, queue)

    def _transactions(self, vhost: str | None) -> Iterator[Entry]:
        for each in list(self._broker.vhosts.values()):
            if vhost in (None, each.name):
                for branch in list(each.branches.values()):
                    if (entry := branch_entry(branch)) is not None:
                        yield entry

    def _connections(self) -> Iterator[Entry | None]:
        for each in list(self._broker.connections):
            yield connection_entry(each) if each.vhost is not None and not each.is_over else None

    def _messages(self, request: ShowBrokerMessages) -> Iterator[Entry]:
        vhost = self._broker.vhosts.get(request.vhost)
        queue = None if vhost is None else vhost.queues.get(request.queue)
        if queue is None:
            raise RequestError("no-queue", f"there is no queue {request.queue!r} in the virtual host {request.vhost!r}")
        is_hidden = self._is_hidden()
        try:
            # All at once: the queue keeps changing, so an iterator must not outlive this call.
            found = list(islice(queue, request.skip, request.skip + request.count))
            shown = [
                message_entry(request.skip + place, message, -1 if is_hidden else request.body)
                for place, message in enumerate(found)
            ]
        except UNREADABLE as error:
            raise RequestError("unreadable", f"what waits on the disk cannot be read: {error}") from None
        return iter(shown)


def queue_entry(vhost: VirtualHost, queue: Queue) -> Entry:
    """Return a queue's entry. `entered` and `left` count messages: the difference of two samples gives a rate."""
    policy, operator_policy = queue.policy_names
    return {
        "vhost": vhost.name,
        "name": shown_text(queue.name),
        "type": queue.type,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.exclusive_to is not None,
        "arguments": json_mapping(queue.arguments),
        "policy": policy,
        "operator_policy": operator_policy,
        "messages": queue.message_count + queue.unacked,
        "ready": queue.message_count,
        "unacked": queue.unacked,
        "ready_bytes": queue.body_bytes,
        "consumers": len(queue.consumers),
        "entered": queue.entered,
        "left": queue.left,
    }


def connection_entry(connection: Any) -> Entry:
    """Return the entry of a connection to the broker, which may be a connection of the proxy in front of it."""
    properties, dialect = connection.client_properties, broker_dialect(connection)
    return {
        "connection": connection.name,
        "user": shown_text(connection.user.name),
        "vhost": "" if connection.vhost is None else connection.vhost.name,
        **product(properties),
        "name": client_name(properties),
        **dialect.limits(connection),
        "blocked": connection.is_blocked,
        "channels": len(connection.channels),
        **dialect.held(connection),
    }


def message_entry(place: int, message: Message, excerpt: int) -> Entry:
    """Return the entry of a queued message, the head of the queue in `place` 0.

    The body is cut to `excerpt` bytes; where that is negative, properties and body are left out.
    """
    entry: Entry = {
        "place": place,
        "exchange": shown_text(message.exchange),
        "routing_key": shown_text(message.routing_key),
        "size": message.size,
    }
    if excerpt < 0:
        return {**entry, "redacted": True}
    try:
        properties = json_mapping(message.properties.present())
    except ProtocolError:
        properties = {}
    return {**entry, "properties": properties, "body": shown_body(message.body, excerpt)}

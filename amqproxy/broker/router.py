"""Routing of messages in one virtual host: from an exchange, along bindings, to queues."""

from __future__ import annotations

from collections.abc import Mapping

from amqproxy.broker.exchanges.delayed_messages import DelayedMessages
from amqproxy.broker.exchanges.exchange import Exchange
from amqproxy.broker.message import Message
from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.work import Quantum

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

MAX_ROUTES = 65_536
"""Routes cached for one virtual host; when the cache is full, it is cleared."""


VISITED = 2
"""Number of bindings and destinations visited for a route that count as one operation."""


class Route:
    """The destinations of a message: `queues`, each once.

    `is_cacheable` if only the routing key decides the route. `is_delayed` if an exchange holds the message for a while,
    and `is_stored` if it is written to disk meanwhile. `has_no_local` if one of the queues does not take messages from
    every publisher.
    """

    __slots__ = ("has_no_local", "is_cacheable", "is_delayed", "is_stored", "queues")

    def __init__(
        self, queues: tuple[Queue, ...], is_cacheable: cython.bint, is_delayed: cython.bint, is_stored: cython.bint
    ) -> None:
        self.queues = queues
        self.has_no_local = any(queue.is_no_local for queue in queues)
        self.is_cacheable = is_cacheable
        self.is_delayed = is_delayed
        self.is_stored = is_stored


class Router:
    """The routes among a virtual host's `exchanges` and `queues`; whoever changes those must call `forget`."""

    __slots__ = ("_delayed", "_exchanges", "_quantum", "_queues", "_routes")

    def __init__(
        self, exchanges: Mapping[str, Exchange], queues: Mapping[str, Queue], delayed: DelayedMessages, quantum: Quantum
    ) -> None:
        self._exchanges = exchanges
        self._queues = queues
        self._delayed = delayed
        self._quantum = quantum
        self._routes: dict[tuple[str, str], Route] = {}

    def route(self, exchange: Exchange, message: Message, now: float) -> Route:
        """Return the route of a message from an exchange; a delayed exchange on the route takes the message."""
        if message.more_keys:
            return self._find(exchange, message, now)
        key = (exchange.name, message.routing_key)
        found: Route | None = self._routes.get(key)
        if found is None:
            found = self._find(exchange, message, now)
            if found.is_cacheable:
                if len(self._routes) >= MAX_ROUTES:
                    self._routes.clear()
                self._routes[key] = found
        return found

    def cached(self, exchange: Exchange, routing_key: str) -> tuple[Queue, ...] | None:
        """Return the cached queues for a message with only this routing key; `None` if no such route is cached."""
        found = self._routes.get((exchange.name, routing_key))
        return None if found is None else found.queues

    def forget(self) -> None:
        """Drop the cached routes: bindings, exchanges or queues have changed."""
        if self._routes:
            self._routes = {}

    def _find(self, first: Exchange, message: Message, now: float) -> Route:
        keys = (message.routing_key, *message.more_keys)
        found: dict[Queue, None] = {}
        if first.name == "":
            found = {self._queues[key]: None for key in keys if key in self._queues}
            return Route(tuple(found), True, False, False)
        seen = {first}
        waiting = [first]
        is_cacheable = True
        is_delayed = is_stored = False
        while waiting:
            exchange = waiting.pop()
            is_cacheable = is_cacheable and exchange.routes_by_key_only
            if delay := exchange.delay(message):
                is_delayed = True
                if self._delayed.hold(now + delay / 1000, exchange, message):
                    is_stored = True
                continue
            destinations: list[Queue | Exchange] = []
            for key in keys:
                places = [place for place in exchange.route(key, message) if not place.is_deleted]
                self._quantum.left -= (exchange.visited + len(places)) // VISITED
                destinations += places
            if not destinations:
                alternate = exchange.alternate
                if alternate is not None and alternate in self._exchanges:
                    destinations = [self._exchanges[alternate]]
            for destination in destinations:
                if isinstance(destination, Queue):
                    found[destination] = None
                elif destination not in seen:
                    seen.add(destination)
                    waiting.append(destination)
        return Route(tuple(found), is_cacheable, is_delayed, is_stored)

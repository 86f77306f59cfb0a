"""direct: the routing key equals the binding's key. Section 3.1.3.1."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from amqproxy.broker.exchanges.exchange import Binding, Destinations, Exchange

if TYPE_CHECKING:
    from amqproxy.broker.message import Message
    from amqproxy.broker.queues.queue import Queue


class DirectExchange(Exchange):
    type = "direct"

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self._by_key: dict[str, Destinations] = {}

    def added(self, binding: Binding) -> None:
        self._by_key.setdefault(binding.routing_key, Destinations()).add(binding.destination)

    def removed(self, binding: Binding) -> None:
        destinations = self._by_key[binding.routing_key]
        destinations.drop(binding.destination)
        if not destinations:
            del self._by_key[binding.routing_key]

    def route(self, routing_key: str, message: Message) -> Iterable[Queue | Exchange]:
        return self._by_key.get(routing_key, ())

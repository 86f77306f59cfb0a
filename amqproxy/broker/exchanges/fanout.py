"""fanout: every binding matches. Section 3.1.3.2."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from amqproxy.broker.exchanges.exchange import Binding, Destinations, Exchange

if TYPE_CHECKING:
    from amqproxy.broker.message import Message
    from amqproxy.broker.queues.queue import Queue


class FanoutExchange(Exchange):
    type = "fanout"

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self._destinations = Destinations()

    def added(self, binding: Binding) -> None:
        self._destinations.add(binding.destination)

    def removed(self, binding: Binding) -> None:
        self._destinations.drop(binding.destination)

    def route(self, routing_key: str, message: Message) -> Iterable[Queue | Exchange]:
        return self._destinations

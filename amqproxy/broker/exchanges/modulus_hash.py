"""x-modulus-hash: each message goes to one of the bound queues, chosen by the hash of its routing key. From 4.3 on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from zlib import crc32

from amqproxy.broker.exchanges.fanout import FanoutExchange

if TYPE_CHECKING:
    from amqproxy.broker.exchanges.exchange import Binding, Exchange
    from amqproxy.broker.message import Message
    from amqproxy.broker.queues.queue import Queue


class ModulusHashExchange(FanoutExchange):
    """Modulus-hash exchange; a message's destination depends on the number of destinations, and on their names."""

    type = "x-modulus-hash"

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self._in_order: list[Queue | Exchange] = []

    def added(self, binding: Binding) -> None:
        super().added(binding)
        self._in_order = []

    def removed(self, binding: Binding) -> None:
        super().removed(binding)
        self._in_order = []

    def route(self, routing_key: str, message: Message) -> Iterable[Queue | Exchange]:
        self.visited = 0
        if not self._in_order:
            self._in_order = sorted(self._destinations, key=lambda place: place.name)
            self.visited = len(self._in_order)
        places = self._in_order
        return [places[crc32(routing_key.encode(errors="surrogateescape")) % len(places)]] if places else []

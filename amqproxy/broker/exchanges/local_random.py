"""x-local-random: each message goes to one of the bound queues, chosen at random. From RabbitMQ 4.0 on."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import TYPE_CHECKING

from amqproxy.amqp091.errors import PreconditionFailed
from amqproxy.broker.exchanges.exchange import Binding, Exchange
from amqproxy.broker.exchanges.fanout import FanoutExchange

if TYPE_CHECKING:
    from amqproxy.broker.message import Message
    from amqproxy.broker.queues.queue import Queue


class LocalRandomExchange(FanoutExchange):
    type = "x-local-random"
    routes_by_key_only = False

    def check_binding(self, binding: Binding) -> None:
        if binding.routing_key:
            raise PreconditionFailed(f"Non empty binding '{binding.routing_key}' key not permitted")
        if isinstance(binding.destination, Exchange):
            raise PreconditionFailed("Destination not found")

    def route(self, routing_key: str, message: Message) -> Iterable[Queue | Exchange]:
        places = list(self._destinations)
        self.visited = len(places)
        return [random.choice(places)] if places else []

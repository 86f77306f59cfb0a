"""fanout: every binding fits. Section 3.1.3.2."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from amqproxy.broker.exchange import Exchange

if TYPE_CHECKING:
    from amqproxy.broker.message import Message
    from amqproxy.broker.queue import Queue


class Fanout(Exchange):
    type = "fanout"

    def route(self, routing_key: str, message: Message) -> Iterable[Queue | Exchange]:
        return [binding.destination for binding in self.bindings.values()]

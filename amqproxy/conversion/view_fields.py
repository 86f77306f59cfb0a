"""Parts of 0-9-1 views of other protocols that no 0-9-1 peer sends."""

from __future__ import annotations

from amqproxy.amqp091.methods import QueueDeclareOk

BOUND_QUEUE = "queue"
BOUND_KEY = "binding-key"
"""Arguments of a passive exchange.declare that stand for the queue and the key of a question about a binding."""

FALLS_BACK = 0xFA11
"""Mark in the reserved field of a publish: if its exchange does not exist, the broker takes it as the name of a queue,
or routes the message through the default exchange.
"""


class QueueQueryOk(QueueDeclareOk, frozen=True):
    """The answer to a question about a queue: that of a passive queue.declare, and the queue's alternate exchange."""

    alternate_exchange: str = ""

    def encode(self) -> bytes:
        """Encode the method as in 0-9-1, without the alternate exchange."""
        return QueueDeclareOk(self.queue, self.message_count, self.consumer_count).encode()

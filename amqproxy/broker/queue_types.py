"""The types of queue; `TYPES` is how queue.declare finds them."""

from amqproxy.broker.queue import Queue
from amqproxy.broker.quorum import Quorum
from amqproxy.broker.stream import Stream

TYPES: dict[str, type[Queue]] = {cls.type: cls for cls in (Queue, Quorum, Stream)}

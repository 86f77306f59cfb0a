"""The queue types; queue.declare finds them in `QUEUE_TYPES`."""

from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.queues.quorum import QuorumQueue
from amqproxy.broker.queues.stream import StreamQueue

QUEUE_TYPES: dict[str, type[Queue]] = {cls.type: cls for cls in (Queue, QuorumQueue, StreamQueue)}

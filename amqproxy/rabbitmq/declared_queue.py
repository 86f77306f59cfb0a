"""Properties of queues in which a later RabbitMQ differs, as clients declare them or definitions have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from amqproxy.rabbitmq.incompatibility import (
    CONSUMER_TIMEOUT,
    QUEUE_MASTER_LOCATOR,
    QUEUE_MODE,
    QUEUE_VERSION,
    QUORUM_BYTES,
    TRANSIENT_QUEUE,
)


class DeclaredQueue(NamedTuple):
    """A queue's properties and arguments."""

    is_durable: bool
    is_exclusive: bool
    arguments: Mapping[str, Any]

    @property
    def type(self) -> str:
        """The queue type; classic is RabbitMQ's default."""
        return str(self.arguments.get("x-queue-type", "classic"))


def _argument(name: str, *, only: Any = None) -> Callable[[DeclaredQueue], str | None]:
    def use(queue: DeclaredQueue) -> str | None:
        value = queue.arguments.get(name)
        return None if value is None or (only is not None and value != only) else f"with {name} {value!s:.64}"

    return use


def _argument_of(queue_type: str, name: str) -> Callable[[DeclaredQueue], str | None]:
    use = _argument(name)
    return lambda queue: use(queue) if queue.type == queue_type else None


def _transient(queue: DeclaredQueue) -> str | None:
    return None if queue.is_durable or queue.is_exclusive else "neither durable nor exclusive"


QUEUE_USES: Mapping[str, Callable[[DeclaredQueue], str | None]] = {
    TRANSIENT_QUEUE.kind: _transient,
    QUEUE_VERSION.kind: _argument("x-queue-version", only=1),
    QUEUE_MASTER_LOCATOR.kind: _argument("x-queue-master-locator"),
    QUEUE_MODE.kind: _argument("x-queue-mode"),
    CONSUMER_TIMEOUT.kind: _argument_of("classic", "x-consumer-timeout"),
    QUORUM_BYTES.kind: _argument_of("quorum", "x-max-length-bytes"),
}
"""By the kind of an incompatibility, the text about a queue that has it, which follows "queue NAME"."""

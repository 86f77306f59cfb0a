"""Depths of queues at a broker, by AMQP."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import trio

from amqproxy.amqp091.methods import QueueDeclare, QueueDeclareOk
from amqproxy.moving.broker_link import BrokerLink, ChannelRefused, Dial, open_link
from amqproxy.moving.move_job import MovedQueue, MoveEnd
from amqproxy.moving.move_login import dial_of, login_of
from amqproxy.proxy.broker_login import LOST
from amqproxy.proxy.upstream import Unreachable


class QueueDepth(NamedTuple):
    """Ready messages and consumers of a queue; without them, `text` is the broker's refusal."""

    messages: int | None = None
    consumers: int | None = None
    text: str = ""


async def queue_depths(end: MoveEnd, queues: Iterable[MovedQueue], timeout: float) -> list[QueueDepth]:
    """Return the depth of each queue; raise `ValueError` if the broker does not answer within `timeout` seconds."""
    dial: Dial = dial_of(end)
    found: dict[MovedQueue, QueueDepth] = {}
    queues = list(queues)
    try:
        with trio.fail_after(timeout):
            for vhost in sorted({queue.vhost for queue in queues}):
                async with open_link(dial, login_of(end), vhost) as link:
                    for queue in _of(queues, vhost):
                        found[queue] = await _depth(link, queue)
    except (Unreachable, ChannelRefused, *LOST) as error:
        raise ValueError(str(error) or f"{end.upstream.address} does not answer") from None
    return [found[queue] for queue in queues]


def _of(queues: Iterable[MovedQueue], vhost: str) -> Iterator[MovedQueue]:
    return (queue for queue in queues if queue.vhost == vhost)


async def _depth(link: BrokerLink, queue: MovedQueue) -> QueueDepth:
    try:
        answer = await link.ask(QueueDeclare(queue=queue.name, passive=True), QueueDeclareOk)
    except ChannelRefused as error:
        await link.renew_channel()
        return QueueDepth(text=str(error))
    return QueueDepth(answer.message_count, answer.consumer_count)

"""The move of one queue's messages from one broker to the queue of the same name on another one."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable

import trio

from amqproxy.amqp091.frame import METHOD, Frame
from amqproxy.amqp091.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from amqproxy.amqp091.wire import Table
from amqproxy.moving.broker_link import BrokerLink, ChannelRefused
from amqproxy.moving.message_forwarder import MessageForwarder, MoveFailed, Publish
from amqproxy.moving.move_job import MovedQueue
from amqproxy.moving.unsettled_messages import MAX_MESSAGES
from amqproxy.proxy.broker_login import LOST

CONSUMER = "amqproxy.move"

LOOK_INTERVAL = 0.1
"""Seconds between two looks at a queue from which nothing has come meanwhile."""

LONGEST_NAME = 255
"""Longest name of an exchange in bytes."""

NOT_FOUND, RESOURCE_LOCKED, PRECONDITION_FAILED = 404, 405, 406


STREAM = "stream"
"""The queue type whose messages stay when they are consumed."""

OF_STREAM = "it is a stream, whose messages stay when they are consumed"


class QueueLeft(Exception):
    """The queue's messages stay where they are, for good; the text has the reason."""


async def move_queue(
    source: BrokerLink,
    target: BrokerLink,
    queue: MovedQueue,
    *,
    strict: bool,
    report: Callable[[int, int], None],
) -> int:
    """Move all messages of a queue; return how many were moved.

    With `strict`, no other consumer may be there, so that none returns a message behind later ones. `report` is called
    with the number of messages moved and left. Links can be used again only if nothing was moved and nothing is raised:
    publishes are numbered from a link's first one. Raise `QueueLeft`, `MoveFailed`, or one of `LOST`.
    """
    name = queue.name
    if queue.type == STREAM:
        raise QueueLeft(OF_STREAM)
    depth = await _depth(source, name, "the source")
    if depth is None:
        raise QueueLeft("the source has no such queue")
    report(0, depth.message_count)
    exchange = exchange_for(name)
    if not depth.message_count and not depth.consumer_count:
        await target.ask(ExchangeDelete(exchange=exchange), ExchangeDeleteOk)  # of a move that was killed
        return 0
    if not queue.type and await is_stream(source, name):
        raise QueueLeft(OF_STREAM)
    if await _depth(target, name, "the target") is None:
        raise MoveFailed("the target has no such queue: declare it, or import the source's definitions")
    try:
        await target.ask(ExchangeDeclare(exchange=exchange, type="fanout"), ExchangeDeclareOk)
        await target.ask(QueueBind(queue=name, exchange=exchange), QueueBindOk)
        await target.ask(ConfirmSelect(), ConfirmSelectOk)
        await source.ask(BasicQos(prefetch_count=MAX_MESSAGES), BasicQosOk)
    except ChannelRefused as error:
        raise MoveFailed(str(error)) from None
    forwarder = MessageForwarder(publish_to(exchange, name), target.frame_max)
    transfer = _Transfer(source, target, forwarder, name, lambda: report(forwarder.moved, transfer.left))
    transfer.left = depth.message_count
    moved = await transfer.run(BasicConsume(queue=name, consumer_tag=CONSUMER, exclusive=strict))
    await target.ask(ExchangeDelete(exchange=exchange), ExchangeDeleteOk)
    return moved


async def is_stream(link: BrokerLink, queue: str) -> bool:
    """Whether a queue is a stream: only streams take the argument x-stream-offset, in RabbitMQ 3.10 to 4.3.

    The link of a stream cannot be used for anything else: it has a consumer.
    """
    try:
        await link.ask(BasicQos(prefetch_count=1), BasicQosOk)
        arguments = Table({"x-stream-offset": "next"})
        await link.ask(BasicConsume(queue=queue, consumer_tag=CONSUMER, arguments=arguments), BasicConsumeOk)
    except ChannelRefused as error:
        if error.code != PRECONDITION_FAILED:
            raise MoveFailed(str(error)) from None
        await link.renew_channel()
        return False
    return True


def publish_to(exchange: str, queue: str) -> Callable[[BasicDeliver, Frame], Publish]:
    """Return the publishes of a queue's messages: by `exchange`, or as they came if that leads to no other queue."""

    def publish_of(delivered: BasicDeliver, header: Frame) -> Publish:
        is_direct = not delivered.exchange and delivered.routing_key == queue
        chosen = "" if is_direct and b"CC" not in header.raw else exchange  # a header CC leads to further queues
        return BasicPublish(exchange=chosen, routing_key=delivered.routing_key, mandatory=True), header.raw

    return publish_of


def exchange_for(queue: str) -> str:
    """Return the name of the exchange by which a queue's messages keep their routing keys."""
    name = f"{CONSUMER}.{queue}"
    if len(name.encode()) > LONGEST_NAME:
        name = f"{CONSUMER}.{hashlib.sha256(queue.encode()).hexdigest()}"
    return name


async def _depth(link: BrokerLink, queue: str, side: str) -> QueueDeclareOk | None:
    """Return a queue's numbers of messages and consumers; `None` if it does not exist."""
    try:
        return await link.ask(QueueDeclare(queue=queue, passive=True), QueueDeclareOk)
    except ChannelRefused as error:
        if error.code == NOT_FOUND:
            return None
        if error.code == RESOURCE_LOCKED:
            raise QueueLeft(f"it is exclusive to a connection of {side}: its client declares it again") from None
        raise MoveFailed(f"{side} refuses: {error}") from None


class _Transfer:
    """The tasks that move messages from a consumer to an exchange, until the queue is empty."""

    def __init__(
        self,
        source: BrokerLink,
        target: BrokerLink,
        forwarder: MessageForwarder,
        queue: str,
        report: Callable[[], None],
    ) -> None:
        self.left = 0
        """Number of messages in the queue, less those that came since it was asked for."""
        self._source = source
        self._target = target
        self._forwarder = forwarder
        self._queue = queue
        self._report = report
        self._settled = trio.Event()
        """Set by each confirm."""
        self._is_empty = False
        self._is_cancelled = False
        self._failures: list[BaseException] = []

    async def run(self, consume: BasicConsume) -> int:
        """Consume until the queue is empty and all is settled; return the number of moved messages."""
        await self._source.request(consume)
        async with trio.open_nursery() as nursery:

            async def attempt(do: Callable[[], Awaitable[None]]) -> None:
                try:
                    await do()
                except (MoveFailed, QueueLeft, *LOST) as error:
                    self._failures.append(error)
                    nursery.cancel_scope.cancel()

            for each in (self._source, self._target):
                nursery.start_soon(attempt, each.send_heartbeats)
            nursery.start_soon(attempt, self._confirm)
            nursery.start_soon(attempt, self._look)
            await attempt(self._deliver)
            nursery.cancel_scope.cancel()
        if self._failures:
            raise self._failures[0]
        return self._forwarder.moved

    async def _deliver(self) -> None:
        """Publish deliveries until the consumer is cancelled, then wait until all are settled."""
        while not self._is_cancelled:
            while not self._forwarder.unsettled.has_room:
                await self._next_confirm()
            frames = await self._source.receive()
            await self._target.send(self._forwarder.deliver(frames))
            for frame in frames:
                if frame.kind == METHOD:
                    await self._note(frame)
        while self._forwarder.unsettled:
            await self._next_confirm()

    async def _note(self, frame: Frame) -> None:
        """Process the answers to looks and to the cancel."""
        method = frame.method
        if isinstance(method, QueueDeclareOk):
            self.left = method.message_count
            if not method.message_count and not self._is_empty:
                self._is_empty = True
                await self._source.request(BasicCancel(CONSUMER))
        elif isinstance(method, BasicCancelOk):
            self._is_cancelled = True

    async def _next_confirm(self) -> None:
        self._settled = trio.Event()
        await self._settled.wait()

    async def _confirm(self) -> None:
        """Acknowledge confirmed messages until cancelled."""
        while True:
            await self._source.send(self._forwarder.confirm(await self._target.receive()))
            if self._forwarder.failure is not None:
                raise self._forwarder.failure
            self._settled.set()

    async def _look(self) -> None:
        """Report the progress, and ask for the queue's depth when nothing has come for a while, until it is empty."""
        received = 0
        while not self._is_empty:
            await trio.sleep(LOOK_INTERVAL)
            came = self._forwarder.received - received
            received += came
            self.left = max(0, self.left - came)
            self._report()
            if not came and not self._forwarder.unsettled:
                await self._source.request(QueueDeclare(queue=self._queue, passive=True))

"""One run of a shovel: from its connections to the first failure, or to its last message."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import trio

from amqproxy.amqp091.frame import METHOD, Frame
from amqproxy.amqp091.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicQos,
    BasicQosOk,
    ChannelClose,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ConnectionStartOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from amqproxy.amqp091.wire import Table
from amqproxy.configuration.config import ConfigError
from amqproxy.moving.broker_link import NO_ANSWER, BrokerLink, ChannelRefused, Dial, open_link
from amqproxy.moving.message_forwarder import MoveFailed, refusal
from amqproxy.moving.move_login import client_properties
from amqproxy.moving.queue_move import NOT_FOUND
from amqproxy.proxy.broker_login import LOST
from amqproxy.proxy.upstream import Dialer, Unreachable
from amqproxy.shovels.broker_uri import BrokerURI, parse_uri
from amqproxy.shovels.definition import QUEUE_LENGTH, Shovel, ShovelEnd
from amqproxy.shovels.property_changes import PropertyChanges
from amqproxy.shovels.shovel_forwarder import ShovelForwarder
from amqproxy.sockets.transport import Transport

REFUSED_PAUSE = 1.0
"""Seconds without further deliveries after the destination has refused a message, which the source offers again."""

ENDED = "the shovel has stopped"

OpenLocalConnection = Callable[[BrokerURI], Awaitable[Transport]]
"""Returns a connection to this broker, whose login is done already; raises `Unreachable`."""


class ShovelFailed(Exception):
    """A run has ended. `reason` is RabbitMQ's word for it, `cause` the details."""

    def __init__(self, reason: str, cause: object) -> None:
        self.reason = reason
        self.cause = str(cause) or NO_ANSWER
        super().__init__(f"{reason}: {self.cause}")


FAILURES = (Unreachable, ChannelRefused, ConfigError, MoveFailed, *LOST)


class ShovelRun:
    """A run of a shovel. `remaining` is the number of messages after which it is over, `None` for the definition's.

    `on_running` is called with the URIs, without credentials, when it consumes. `forwarder` is there from then on.
    """

    def __init__(
        self,
        shovel: Shovel,
        open_local: OpenLocalConnection,
        on_running: Callable[[str, str], Awaitable[None]],
        remaining: int | None = None,
    ) -> None:
        self.forwarder: ShovelForwarder | None = None
        self._shovel = shovel
        self._open_local = open_local
        self._on_running = on_running
        self._remaining = remaining
        self._settled = trio.Event()
        """Set by each frame of the destination."""
        self._first: list[Frame] = []
        """Frames of the source from consume-ok on."""
        self._failures: list[Exception] = []

    async def run(self, opening: trio.CapacityLimiter) -> None:
        """Run until all messages are moved; raise `ShovelFailed`. `opening` limits the shovels that connect at once."""
        shovel = self._shovel
        async with AsyncExitStack() as stack:
            async with opening:
                source, source_uri = await self._connected(stack, shovel.source, "source")
                destination, destination_uri = await self._connected(stack, shovel.destination, "destination")
                changes = PropertyChanges(shovel, source_uri, destination_uri, time.time)
                try:
                    forwarder = await self._prepared(source, destination, changes)
                except FAILURES as error:
                    raise ShovelFailed("failed to set up topology", error) from None
            self.forwarder = forwarder
            if forwarder.is_over:
                return
            await self._on_running(source_uri, destination_uri)
            await self._forward(source, destination, forwarder)

    # --- before the first message

    async def _connected(self, stack: AsyncExitStack, end: ShovelEnd, side: str) -> tuple[BrokerLink, str]:
        """Connect to one of the URIs, in random order as RabbitMQ does, and return the link with the shown URI."""
        causes: list[str] = []
        for each in random.sample(end.uris, len(end.uris)):
            uri = parse_uri(each)
            try:
                link = await stack.enter_async_context(
                    open_link(self._dial(uri, end), self._start(uri), uri.vhost, ended=ENDED)
                )
            except FAILURES as error:
                causes.append(f"{uri.shown}: {str(error) or NO_ANSWER}")
            else:
                return link, "" if end.is_local else uri.shown
        raise ShovelFailed(f"failed to connect to {side}", "; ".join(causes))

    def _dial(self, uri: BrokerURI, end: ShovelEnd) -> Dial:
        if uri.upstream is None or end.is_local:
            return lambda: self._open_local(uri)
        upstream = uri.upstream

        async def dial() -> Transport:
            return await Dialer(upstream, uri.timeout)(None)

        return dial

    def _start(self, uri: BrokerURI) -> ConnectionStartOk:
        properties = client_properties(f"Shovel {self._shovel.name}", **{"connection.blocked": True})
        if uri.is_external:
            return ConnectionStartOk(client_properties=properties, mechanism="EXTERNAL", response=b"")
        response = f"\0{uri.user or ''}\0{uri.password or ''}".encode("utf-8", "surrogateescape")
        return ConnectionStartOk(client_properties=properties, response=response)

    async def _prepared(self, source: BrokerLink, destination: BrokerLink, changes: PropertyChanges) -> ShovelForwarder:
        """Declare what is missing and consume; return the forwarder, which is over if there is nothing to move."""
        shovel = self._shovel
        if shovel.destination.queue is not None:
            await _declared(destination, shovel.destination, shovel.destination.queue)
        if shovel.ack_mode == "on-confirm":
            await destination.ask(ConfirmSelect(), ConfirmSelectOk)
        queue, depth = shovel.source.queue, 0
        if queue is not None:
            depth = (await _declared(source, shovel.source, queue)).message_count
        else:
            queue = (await source.ask(QueueDeclare(exclusive=True), QueueDeclareOk)).queue
            bind = QueueBind(
                queue=queue, exchange=shovel.source.exchange or "", routing_key=shovel.source.routing_key or ""
            )
            await source.ask(bind, QueueBindOk)
        if shovel.ack_mode != "no-ack":
            await source.ask(BasicQos(prefetch_count=shovel.prefetch), BasicQosOk)
        remaining = self._remaining
        if shovel.delete_after == QUEUE_LENGTH:
            remaining = depth
        elif remaining is None and isinstance(shovel.delete_after, int):
            remaining = shovel.delete_after
        forwarder = ShovelForwarder(shovel, changes, destination.frame_max, remaining)
        if not forwarder.is_over:
            consume = BasicConsume(
                queue=queue, no_ack=shovel.ack_mode == "no-ack", arguments=Table(shovel.consumer_arguments)
            )
            self._first = await _consuming(source, consume)
        return forwarder

    # --- the messages

    async def _forward(self, source: BrokerLink, destination: BrokerLink, forwarder: ShovelForwarder) -> None:
        async with trio.open_nursery() as nursery:

            async def attempt(do: Callable[[], Awaitable[None]]) -> None:
                try:
                    await do()
                except (MoveFailed, *LOST) as error:
                    self._failures.append(error)
                    nursery.cancel_scope.cancel()

            for each in (source, destination):
                nursery.start_soon(attempt, each.send_heartbeats)
            nursery.start_soon(attempt, lambda: self._confirm(source, destination, forwarder))
            await attempt(lambda: self._deliver(source, destination, forwarder))
            nursery.cancel_scope.cancel()
        if self._failures:
            raise ShovelFailed("needed a restart", self._failures[0])

    async def _deliver(self, source: BrokerLink, destination: BrokerLink, forwarder: ShovelForwarder) -> None:
        """Publish deliveries until the shovel is over.

        While the destination takes nothing, the source is not read: it has at most the prefetch count on its way.
        """
        refused = 0
        await destination.send(forwarder.deliver(self._first))
        await source.send(forwarder.acknowledge())
        while not forwarder.is_over:
            if forwarder.unpublished == 0 or forwarder.is_blocked or not forwarder.unsettled.has_room:
                await self._next_settled()
                continue
            if forwarder.refused > refused:
                await trio.sleep(REFUSED_PAUSE)
                refused = forwarder.refused
            await destination.send(forwarder.deliver(await source.receive()))
            await source.send(forwarder.acknowledge())

    async def _next_settled(self) -> None:
        self._settled = trio.Event()
        await self._settled.wait()

    async def _confirm(self, source: BrokerLink, destination: BrokerLink, forwarder: ShovelForwarder) -> None:
        """Acknowledge confirmed messages until cancelled."""
        while True:
            await source.send(forwarder.confirm(await destination.receive()))
            if forwarder.failure is not None:
                raise forwarder.failure
            self._settled.set()


async def _consuming(source: BrokerLink, consume: BasicConsume) -> list[Frame]:
    """Start the consumer and return the frames that came with consume-ok; raise `MoveFailed` if it is refused."""
    await source.request(consume)
    while True:
        frames = await source.receive_answer()
        for frame in frames:
            if frame.kind == METHOD and isinstance(frame.method, ChannelClose | ConnectionClose):
                raise refusal("the source", frame.method)
            if frame.kind == METHOD and isinstance(frame.method, BasicConsumeOk):
                return frames


async def _declared(link: BrokerLink, end: ShovelEnd, queue: str) -> QueueDeclareOk:
    """Return the depth of a queue, which is declared durable if it is missing and not predeclared."""
    try:
        return await link.ask(QueueDeclare(queue=queue, passive=True), QueueDeclareOk)
    except ChannelRefused as error:
        if error.code != NOT_FOUND or end.is_predeclared:
            raise
    await link.renew_channel()
    return await link.ask(QueueDeclare(queue=queue, durable=True, arguments=Table(end.arguments)), QueueDeclareOk)

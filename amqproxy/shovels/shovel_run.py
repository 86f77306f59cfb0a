"""One run of a shovel: from its connections to the first failure, or to its last message."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from typing import NamedTuple

import trio

from amqproxy.amqp091.frame import METHOD, Frame
from amqproxy.amqp091.methods import (
    BasicCancel,
    BasicCancelOk,
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
from amqproxy.shovels.openings import Openings
from amqproxy.shovels.property_changes import PropertyChanges
from amqproxy.shovels.shovel_forwarder import ShovelForwarder
from amqproxy.sockets.transport import Transport

REFUSED_PAUSE = 1.0
"""Seconds without further deliveries after the destination has refused a message, which the source offers again."""

CONSUMER = "shovel"
"""The consumer tag."""

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

    async def run(self, openings: Openings) -> None:
        """Run until all messages are moved; raise `ShovelFailed`."""
        failure: ShovelFailed | None = None
        async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
            try:
                await self._run(openings, stack, nursery)
            except ShovelFailed as error:  # within the nursery, or it would be in a group
                failure = error
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _run(self, openings: Openings, stack: AsyncExitStack, nursery: trio.Nursery) -> None:
        shovel = self._shovel
        source = await self._connected(openings, stack, shovel.source, "source")
        nursery.start_soon(_beat, source.link)
        destination = await self._connected(openings, stack, shovel.destination, "destination")
        nursery.start_soon(_beat, destination.link)
        changes = PropertyChanges(shovel, source.shown, destination.shown, time.time)
        try:
            async with openings.limit(destination.address):
                await self._prepare_destination(destination.link)
            async with openings.limit(source.address):
                forwarder = await self._prepared(source.link, changes, destination.link.frame_max)
        except FAILURES as error:
            raise ShovelFailed("failed to set up topology", error) from None
        self.forwarder = forwarder
        if forwarder.is_over:
            return
        await self._on_running(source.shown, destination.shown)
        await self._forward(source.link, destination.link, forwarder)

    # --- before the first message

    async def _connected(self, openings: Openings, stack: AsyncExitStack, end: ShovelEnd, side: str) -> _ConnectedEnd:
        """Connect to one of the URIs, in random order as RabbitMQ does, but last to brokers that many wait for."""
        uris = [parse_uri(each) for each in end.uris]
        addresses = ["" if end.is_local else each.address for each in uris]
        places = random.sample(range(len(uris)), len(uris))
        places.sort(key=lambda place: not openings.limit(addresses[place]).available_tokens)
        causes: dict[int, str] = {}
        for place in places:
            uri, address = uris[place], addresses[place]
            try:
                async with openings.limit(address):
                    link = await stack.enter_async_context(
                        open_link(
                            self._dial(openings, uri, address),
                            self._start(uri),
                            uri.vhost,
                            ended=ENDED,
                            heartbeat=uri.heartbeat if address else 0,  # the end of this process is noticed anyway
                        )
                    )
            except FAILURES as error:
                causes[place] = f"{uri.shown}: {str(error) or NO_ANSWER}"
            else:
                return _ConnectedEnd(link, address, "" if end.is_local else uri.shown)
        raise ShovelFailed(f"failed to connect to {side}", "; ".join(causes[place] for place in sorted(causes)))

    def _dial(self, openings: Openings, uri: BrokerURI, address: str) -> Dial:
        upstream = uri.upstream
        if upstream is None or not address:
            return lambda: self._open_local(uri)

        async def dial() -> Transport:
            return await Dialer(upstream, uri.timeout, openings.context)(None)

        return dial

    def _start(self, uri: BrokerURI) -> ConnectionStartOk:
        properties = client_properties(f"Shovel {self._shovel.name}", **{"connection.blocked": True})
        if uri.is_external:
            return ConnectionStartOk(client_properties=properties, mechanism="EXTERNAL", response=b"")
        response = f"\0{uri.user or ''}\0{uri.password or ''}".encode("utf-8", "surrogateescape")
        return ConnectionStartOk(client_properties=properties, response=response)

    async def _prepare_destination(self, destination: BrokerLink) -> None:
        """Declare what is missing there, and turn confirms on."""
        shovel = self._shovel
        if shovel.destination.queue is not None:
            await _declared(destination, shovel.destination, shovel.destination.queue)
        if shovel.ack_mode == "on-confirm":
            await destination.ask(ConfirmSelect(), ConfirmSelectOk)

    async def _prepared(self, source: BrokerLink, changes: PropertyChanges, frame_max: int) -> ShovelForwarder:
        """Declare what is missing and consume; return the forwarder, which is over if there is nothing to move.

        `frame_max` is the destination's.
        """
        shovel = self._shovel
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
        forwarder = ShovelForwarder(shovel, changes, frame_max, remaining)
        if not forwarder.is_over:
            consume = BasicConsume(
                queue=queue,
                consumer_tag=CONSUMER,
                no_ack=shovel.ack_mode == "no-ack",
                arguments=Table(shovel.consumer_arguments),
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
        if self._shovel.ack_mode == "no-ack":
            await self._deliver_sent(source, destination, forwarder)

    async def _deliver_sent(self, source: BrokerLink, destination: BrokerLink, forwarder: ShovelForwarder) -> None:
        """Cancel the consumer without acks, and publish all that the source has sent it, and forgotten."""
        await source.request(BasicCancel(CONSUMER))
        is_cancelled = False
        while not is_cancelled:
            frames = await source.receive()
            await destination.send(forwarder.deliver(frames))
            forwarder.acknowledge()
            is_cancelled = any(each.kind == METHOD and isinstance(each.method, BasicCancelOk) for each in frames)

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


class _ConnectedEnd(NamedTuple):
    """A link, with the broker's address, which is empty for this one, and its URI without credentials."""

    link: BrokerLink
    address: str
    shown: str


async def _beat(link: BrokerLink) -> None:
    """Send heartbeats; a link that is lost is noticed by those that use it."""
    with suppress(*LOST):
        await link.send_heartbeats()


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

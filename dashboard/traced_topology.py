"""Topology of a capture: the exchanges, queues, bindings and consumers that its clients declared or used.

Objects stay after their deletion, and consumers after the end of their connection, since most captures end with both.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from amqproxy.amqp010.methods import Method as Amqp010Method
from amqproxy.amqp091.methods import BasicConsume, BasicConsumeOk, Method, QueueDeclare, QueueDeclareOk
from amqproxy.conversion.amqp010.method_views import method_view
from amqproxy.dashboard.flows import shown
from amqproxy.dashboard.party import Party
from amqproxy.peer import CLIENT
from amqproxy.taps.record import json_value
from amqproxy.taps.topology.observed_objects import Actor, Observation
from amqproxy.taps.topology.observed_topology import DIRECT_REPLY_TO, ObservedTopology
from amqproxy.taps.trace.amqp091.declarations import declarations
from amqproxy.taps.trace.events import RequestAnswered, RequestSent, StateRestored, TraceEvent
from amqproxy.taps.trace.snapshot import ConnectionSnapshot

MAX_CONSUMERS = 10_000
"""Maximum number of consumers; of more, the newest are kept."""

MAX_CHANNELS = 10_000
"""Maximum number of channels whose last declared queue is known, which an empty name stands for."""


class TracedTopology:
    """Topology from the requests of all connections that were answered, or need no answer."""

    def __init__(self) -> None:
        self.objects = ObservedTopology(keeps_deleted=True)
        self._consumers: OrderedDict[tuple[int, int, str], dict[str, Any]] = OrderedDict()
        self._last: OrderedDict[tuple[int, int], str] = OrderedDict()

    def entries(self, vhost: str | None = None) -> Iterator[Any]:
        """Yield the objects, and then the consumers, of one virtual host or of all."""
        yield from self.objects.entries(vhost)
        yield from (each for each in self._consumers.values() if vhost in (None, each["vhost"]))

    def take(self, stream: int, connection: str, party: Party, events: Iterable[TraceEvent]) -> None:
        """Apply the requests of one connection."""
        for event in events:
            if isinstance(event, StateRestored) and event.snapshot is not None:
                self._restore(stream, connection, party, event.snapshot)
            if not isinstance(event, RequestAnswered | RequestSent) or event.sender != CLIENT:
                continue
            request = event.request
            if isinstance(request, Amqp010Method):
                request = method_view(CLIENT, request)
            if isinstance(request, Method):
                actor = Actor(stream, party.user, connection.partition("-")[0])
                seen = Observation(party.vhost, party.vhost, actor, event.ts_ns / 1e9)
                reply = event.reply if isinstance(event, RequestAnswered) else None
                self._apply(seen, party, event.channel, request, reply)

    def _restore(self, stream: int, connection: str, party: Party, snapshot: ConnectionSnapshot) -> None:
        """Apply what a connection that was joined in its middle has declared, and its consumers."""
        for each, method in declarations(snapshot):
            actor = Actor(stream, party.user, connection.partition("-")[0])
            if each.session is not None:
                actor = Actor(each.session, each.user or "", each.address or "")
            seen = Observation(party.vhost, party.vhost, actor, each.ts_ns / 1e9)
            self.objects.carry_out(seen, method, method, getattr(method, "queue", None))
        seen = Observation(
            party.vhost, party.vhost, Actor(stream, party.user, connection.partition("-")[0]), snapshot.ts_ns / 1e9
        )
        for channel in snapshot.channels:
            if channel.last_queue:
                self._note_last((stream, channel.number), channel.last_queue)
            for consumer in channel.consumers:
                consume = BasicConsume(
                    queue=consumer.queue or "",
                    consumer_tag=consumer.tag,
                    no_ack=consumer.no_ack,
                    exclusive=consumer.exclusive,
                )
                self._consume(seen, party, channel.number, consume, consumer.tag, consumer.queue)

    def _note_last(self, place: tuple[int, int], name: str) -> None:
        """Note the queue that a channel has declared last."""
        self._last.pop(place, None)
        self._last[place] = name
        if len(self._last) > MAX_CHANNELS:
            self._last.popitem(last=False)

    def _apply(self, seen: Observation, party: Party, channel: int, request: Method, reply: object) -> None:
        place = (seen.by.session, channel)
        name: str | None = getattr(request, "queue", None)
        if isinstance(request, QueueDeclare):
            if isinstance(reply, QueueDeclareOk):
                name = reply.queue or name
                request = replace(request, queue=name)
            if name:
                self._note_last(place, name)
        elif name == "":
            name = self._last.get(place)
        if isinstance(request, BasicConsume):
            tag = reply.consumer_tag if isinstance(reply, BasicConsumeOk) else request.consumer_tag
            self._consume(seen, party, channel, request, tag, name)
        else:
            is_sure = not getattr(request, "no_wait", False) or reply is not None
            self.objects.carry_out(seen, request, request, name, is_sure=is_sure)

    def _consume(
        self, seen: Observation, party: Party, channel: int, request: BasicConsume, tag: str, queue: str | None
    ) -> None:
        key = (seen.by.session, channel, tag)
        if queue and key not in self._consumers and not queue.startswith(DIRECT_REPLY_TO):
            self.objects.begin_consumer(seen, queue, queue)
        self._consumers[key] = {
            "kind": "consumer",
            "session": seen.by.session,
            "user": party.user,
            "vhost": party.vhost,
            "name": party.name,
            "state": "declared",
            "channel": channel,
            "consumer_tag": shown(tag),
            "queue": None if queue is None else shown(queue),
            "no_ack": request.no_ack,
            "exclusive": request.exclusive,
            "arguments": json_value(request.arguments),
        }
        if len(self._consumers) > MAX_CONSUMERS:
            self._consumers.popitem(last=False)

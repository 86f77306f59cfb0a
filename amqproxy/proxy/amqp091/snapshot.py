"""Snapshot of a 0-9-1 session, from its legs, its message meter, and the observed requests of its client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from amqproxy.amqp091.channel import Channel, ChannelMode
from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.frame import METHOD
from amqproxy.amqp091.methods import ConnectionUpdateSecret
from amqproxy.amqp091.transitions import CLIENT, SERVER, ChannelState
from amqproxy.proxy.amqp091.interception.interceptor import Amqp091Interceptor
from amqproxy.proxy.amqp091.pass_through import PassThrough
from amqproxy.taps.metering.amqp091.message_meter import MessageMeter
from amqproxy.taps.topology.client_requests import ChannelView
from amqproxy.taps.trace.amqp091.channel_requests import decoded
from amqproxy.taps.trace.amqp091.connection_trace import MASKED
from amqproxy.taps.trace.consumers import queue_name
from amqproxy.taps.trace.open_tags import Span
from amqproxy.taps.trace.requests import TimedRequest
from amqproxy.taps.trace.snapshot import (
    MAX_CONSUMERS,
    MAX_SPANS,
    MAX_SPANS_OF_CHANNEL,
    ChannelSnapshot,
    ConsumerSnapshot,
    ContentSnapshot,
    RequestSnapshot,
    known_text,
    spans_up_to,
)

_CLOSING = {
    ChannelState.CLOSED_BY_CLIENT: (str(CLIENT),),
    ChannelState.CLOSED_BY_SERVER: (str(SERVER),),
    ChannelState.CLOSED_BY_BOTH: (str(CLIENT), str(SERVER)),
}


class ChannelSnapshots:
    """Maker of the snapshots of one connection's channels, with the numbers and tags of the client.

    `connection` is the client leg's, `meter` the session's if messages are counted, `views` are the client's observed
    requests. `offset_ns` is added to the meter's times.
    """

    __slots__ = ("_connection", "_consumers_left", "_meter", "_offset_ns", "_passage", "_spans_left", "_views")

    def __init__(
        self,
        connection: Connection,
        passage: PassThrough | Amqp091Interceptor,
        meter: MessageMeter | None,
        views: Mapping[int, ChannelView],
        offset_ns: int,
    ) -> None:
        self._connection = connection
        self._passage = passage
        self._meter = None if meter is None or meter.is_lost else meter
        self._views = views
        self._offset_ns = offset_ns
        self._spans_left = MAX_SPANS
        self._consumers_left = MAX_CONSUMERS

    def __iter__(self) -> Iterator[ChannelSnapshot]:
        for number, channel in self._connection.channels.items():
            yield self._known(number, channel) or ChannelSnapshot(
                number=number, mode=None, knows_consumers=False, has_forgotten=True, closing=_closing(channel)
            )

    def requests(self, number: int = 0) -> tuple[RequestSnapshot, ...] | None:
        """Return the client's unanswered requests on a channel; `None` if some are unknown."""
        channel = None if self._meter is None else self._meter.channel(number)
        pending = [] if channel is None else channel.requests()
        return None if pending is None else tuple(self._requests(number, pending))

    def _requests(self, number: int, pending: list[TimedRequest]) -> Iterator[RequestSnapshot]:
        for each in pending:
            request = each.request
            if isinstance(request, ConnectionUpdateSecret):
                request = msgspec.structs.replace(request, new_secret=MASKED)
            covered = self._passage.covered_method(CLIENT, Command(number, request))
            if covered is not None:
                yield RequestSnapshot(
                    ts_ns=self._offset_ns + each.ts_ns, sender=str(CLIENT), method=covered.method.encode()
                )

    def _known(self, number: int, channel: Channel) -> ChannelSnapshot | None:
        """Return the state of a channel; `None` if it cannot be told from what taps have been shown."""
        unshown, requests = self._passage.unshown_publishes(number), self.requests(number)
        state = channel.content_states[CLIENT]
        is_mid = state.expects != METHOD
        if unshown is None or requests is None:
            return None
        view = self._views.get(number)
        consumers, knows_consumers = self._consumers(channel, view)
        published = state.contents - (channel.confirms_from or 0) - is_mid - (unshown - is_mid if unshown else 0)
        unconfirmed, unacked, is_complete = self._open(number, channel.mode, published)
        return ChannelSnapshot(
            number=number,
            mode=str(channel.mode),
            published=published,
            unconfirmed=unconfirmed,
            unacked=unacked,
            has_forgotten=not is_complete,
            consumers=consumers,
            knows_consumers=knows_consumers,
            requests=requests,
            contents=tuple(self._contents(number, is_shown=not unshown)),
            last_queue=None if view is None else queue_name("", view.last),
            closing=_closing(channel),
        )

    def _open(self, number: int, mode: ChannelMode, published: int) -> tuple[tuple[Span, ...], tuple[Span, ...], bool]:
        """Return the open publishes up to the last one shown, the open deliveries, and whether these are all."""
        channel = None if self._meter is None else self._meter.channel(number)
        if channel is None or mode is ChannelMode.TX:  # the meter does not have the publishes of a transaction
            return (), (), False
        knows_all = not (channel.has_forgotten or channel.is_recovering)
        if not (channel.unconfirmed or channel.unacked):
            return (), (), knows_all
        most, offset_ns = min(MAX_SPANS_OF_CHANNEL, self._spans_left), self._offset_ns
        unconfirmed, unacked = channel.open_publishes(most, offset_ns), channel.open_deliveries(most, offset_ns)
        knows_all &= _count(unconfirmed) == channel.unconfirmed and _count(unacked) == channel.unacked
        self._spans_left -= len(unconfirmed) + len(unacked)
        return tuple(spans_up_to(published, unconfirmed)), unacked, knows_all

    def _consumers(self, channel: Channel, view: ChannelView | None) -> tuple[tuple[ConsumerSnapshot, ...], bool]:
        """Return a channel's consumers, as they may be shown, and whether these are all."""
        if not channel.consumers:
            return (), True
        found = []
        for tag, no_ack in channel.consumers.items():
            consumer = None if view is None else view.consumers.get(tag)
            consume = None if consumer is None else consumer.consume
            shown = known_text(tag if consume is None else consume.consumer_tag or tag)
            if shown and self._consumers_left > 0:
                self._consumers_left -= 1
                found.append(
                    ConsumerSnapshot(
                        tag=shown,
                        queue=None if consumer is None else known_text(consumer.shown_queue),
                        no_ack=no_ack,
                        exclusive=consume is not None and consume.exclusive,
                    )
                )
        return tuple(found), len(found) == len(channel.consumers)

    def _contents(self, number: int, *, is_shown: bool) -> Iterator[ContentSnapshot]:
        """Yield the contents under way; that of the client only if its beginning was shown."""
        for is_server, payload, remaining in () if self._meter is None else self._meter.contents(number):
            sender = SERVER if is_server else CLIENT
            if is_server or is_shown:
                covered = self._passage.covered_method(sender, Command(number, decoded(number, payload)))
                shown = None if covered is None else covered.method.encode()
                yield ContentSnapshot(sender=str(sender), method=shown, remaining=remaining)


def _count(spans: tuple[Span, ...]) -> int:
    return sum([span.count for span in spans])


def _closing(channel: Channel) -> tuple[str, ...]:
    return () if channel.state is None else _CLOSING.get(channel.state, ())

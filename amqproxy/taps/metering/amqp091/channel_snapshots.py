"""Snapshots of the channels of a 0-9-1 connection, from its state, its message meter and its client's requests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from amqproxy.amqp091.channel import Channel, ChannelMode
from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import METHOD
from amqproxy.amqp091.methods import ConnectionUpdateSecret
from amqproxy.amqp091.transitions import CLIENT, SERVER, ChannelState, Peer
from amqproxy.taps.metering.amqp091.channel_meter import ChannelMeter
from amqproxy.taps.metering.amqp091.message_meter import MessageMeter, UnderWay
from amqproxy.taps.metering.channel_snapshots import ChannelSnapshots
from amqproxy.taps.topology.client_requests import ChannelView
from amqproxy.taps.trace.amqp091.channel_requests import decoded
from amqproxy.taps.trace.amqp091.connection_trace import MASKED
from amqproxy.taps.trace.consumers import queue_name
from amqproxy.taps.trace.open_tags import Span
from amqproxy.taps.trace.requests import TimedRequest
from amqproxy.taps.trace.snapshot import ChannelSnapshot, ConsumerSnapshot, ContentSnapshot, RequestSnapshot

_CLOSING = {
    ChannelState.CLOSED_BY_CLIENT: (str(CLIENT),),
    ChannelState.CLOSED_BY_SERVER: (str(SERVER),),
    ChannelState.CLOSED_BY_BOTH: (str(CLIENT), str(SERVER)),
}


class ShownCommands(Protocol):
    """The commands that taps are shown."""

    def covered_method(self, sender: Peer, command: Command, /) -> Command | None:
        """Return a command as it may be shown; `None` if it must not be."""

    def unshown_publishes(self, number: int, /) -> int | None:
        """Return the number of publishes of a channel that wait, and are not shown yet; `None` if it is unknown."""


class Amqp091ChannelSnapshots(ChannelSnapshots):
    """Snapshots of the channels of one 0-9-1 connection.

    `channels` are those that the client sees, `meter` is the connection's if messages are counted.
    """

    __slots__ = ("_channels", "_contents", "_metered", "_passage")

    def __init__(
        self,
        channels: Mapping[int, Channel],
        passage: ShownCommands,
        meter: MessageMeter | None,
        views: Mapping[int, ChannelView],
        offset_ns: int,
    ) -> None:
        super().__init__(views, offset_ns)
        self._channels = channels
        self._passage = passage
        is_counted = meter is not None and not meter.is_lost
        self._metered: Mapping[int, ChannelMeter] = meter.channels if meter is not None and is_counted else {}
        self._contents: Mapping[int, list[UnderWay]] = meter.contents() if meter is not None and is_counted else {}

    def __iter__(self) -> Iterator[ChannelSnapshot]:
        for number, channel in list(self._channels.items()):
            yield self._known(number, channel) or ChannelSnapshot(
                number=number, mode=None, knows_consumers=False, has_forgotten=True, closing=_closing(channel)
            )

    def requests_of_connection(self) -> tuple[RequestSnapshot, ...]:
        """Return the client's unanswered requests on channel 0, unless some are unknown."""
        metered = self._metered.get(0)
        return () if metered is None else self._requests(0, metered.requests() or ())

    def _requests(self, number: int, pending: Iterable[TimedRequest]) -> tuple[RequestSnapshot, ...]:
        """Return the client's unanswered requests on a channel, as they may be shown."""
        found = []
        for each in pending:
            request = each.request
            if isinstance(request, ConnectionUpdateSecret):
                request = msgspec.structs.replace(request, new_secret=MASKED)
            covered = self._passage.covered_method(CLIENT, Command(number, request))
            if covered is not None:
                method = covered.method.encode()
                found.append(RequestSnapshot(ts_ns=self._offset_ns + each.ts_ns, sender=str(CLIENT), method=method))
        return tuple(found)

    def _known(self, number: int, channel: Channel) -> ChannelSnapshot | None:
        """Return the state of a channel; `None` if it cannot be told from what taps have been shown."""
        metered = self._metered.get(number)
        unshown, pending = self._passage.unshown_publishes(number), () if metered is None else metered.requests()
        if unshown is None or pending is None:
            return None
        state, view = channel.content_states[CLIENT], self._views.get(number)
        is_mid = state.expects != METHOD
        published = state.contents - (channel.confirms_from or 0) - is_mid - (unshown - is_mid if unshown else 0)
        unconfirmed: tuple[Span, ...] = ()
        unacked: tuple[Span, ...] = ()
        knows_all = False
        if metered is not None and channel.mode is not ChannelMode.TX:  # the meter lacks publishes of a transaction
            unconfirmed, unacked, knows_all = self._open_messages(metered, published)
            knows_all &= not metered.is_recovering
        consumers, knows_consumers = self._all_consumers(number, channel, view)
        return ChannelSnapshot(
            number=number,
            mode=str(channel.mode),
            published=published,
            unconfirmed=unconfirmed,
            unacked=unacked,
            has_forgotten=not knows_all,
            consumers=tuple(consumers),
            knows_consumers=knows_consumers,
            requests=self._requests(number, pending) if pending else (),
            contents=tuple(self._shown_contents(number, is_shown=not unshown)) if number in self._contents else (),
            last_queue=self._last_queue(number, view),
            closing=_closing(channel),
        )

    def _all_consumers(
        self, number: int, channel: Channel, view: ChannelView | None
    ) -> tuple[Sequence[ConsumerSnapshot], bool]:
        """Return a channel's consumers, and whether these are all."""
        found = self._consumers(channel, view) if channel.consumers else ()
        return found, len(found) == len(channel.consumers)

    def _last_queue(self, number: int, view: ChannelView | None) -> str | None:
        """Return the queue that the channel has declared last; `None` if it is unknown, or there is none."""
        return None if view is None else queue_name("", view.last)

    def _consumers(self, channel: Channel, view: ChannelView | None) -> tuple[ConsumerSnapshot, ...]:
        """Return a channel's consumers, as they may be shown, without those that may not, or are too many."""
        found = []
        for tag, no_ack in channel.consumers.items():
            consumer = None if view is None else view.consumers.get(tag)
            if consumer is None:
                shown = self._consumer(tag, None, no_ack=no_ack, exclusive=False)
            else:
                consume, queue = consumer.consume, consumer.shown_queue
                shown = self._consumer(consume.consumer_tag or tag, queue, no_ack=no_ack, exclusive=consume.exclusive)
            if shown is not None and shown.tag:
                found.append(shown)
        return tuple(found)

    def _shown_contents(self, number: int, *, is_shown: bool) -> Iterator[ContentSnapshot]:
        """Yield the contents under way; that of the client only if its beginning was shown."""
        for is_server, payload, remaining in self._contents[number]:
            sender = SERVER if is_server else CLIENT
            if is_server or is_shown:
                covered = self._passage.covered_method(sender, Command(number, decoded(number, payload)))
                shown = None if covered is None else covered.method.encode()
                yield ContentSnapshot(sender=str(sender), method=shown, remaining=remaining)


def _closing(channel: Channel) -> tuple[str, ...]:
    return () if channel.state is None else _CLOSING.get(channel.state, ())

"""Snapshots of the sessions that a 0-10 client is attached to, from its meter and its observed requests."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from amqproxy.amqp010.frame import COMMAND, decode_method
from amqproxy.amqp010.transitions import SessionState
from amqproxy.amqp091.commands import Command
from amqproxy.conversion.amqp010.command_view import view_channel
from amqproxy.conversion.amqp010.method_views import method_view
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.taps.metering.amqp010.meter import Amqp010Meter, AttachmentMeter
from amqproxy.taps.metering.channel_snapshots import ChannelSnapshots
from amqproxy.taps.topology.client_requests import ChannelView
from amqproxy.taps.trace.snapshot import ChannelSnapshot, ConsumerSnapshot, ContentSnapshot, RequestSnapshot

_DETACHING = {
    SessionState.DETACHING_BY_CLIENT: (str(CLIENT),),
    SessionState.DETACHING_BY_SERVER: (str(SERVER),),
    SessionState.DETACHING_BY_BOTH: (str(CLIENT), str(SERVER)),
}


class SessionOnChannel(NamedTuple):
    """The session on a channel of the client."""

    number: int
    name: bytes
    state: SessionState = SessionState.ATTACHED


class Amqp010ChannelSnapshots(ChannelSnapshots):
    """Snapshots of the sessions that a 0-10 client is attached to, with the ids of its commands.

    `meter` is the connection's if messages are counted. `unshown_from` returns the position of a session's first
    command that waits, and is not shown yet, infinity if none waits, and `None` if it is unknown; `cover` a command as
    it may be shown, `None` if it must not be. Without `cover`, all are shown as they are.
    """

    __slots__ = ("_cover", "_meter", "_sessions", "_unshown_from")

    def __init__(
        self,
        sessions: Iterable[SessionOnChannel],
        unshown_from: Callable[[int], float | None],
        cover: Callable[[Peer, Command], Command | None] | None,
        meter: Amqp010Meter | None,
        views: Mapping[int, ChannelView],
        offset_ns: int,
    ) -> None:
        super().__init__(views, offset_ns)
        self._sessions = sessions
        self._unshown_from = unshown_from
        self._cover = cover
        self._meter = meter

    def __iter__(self) -> Iterator[ChannelSnapshot]:
        for number, name, state in self._sessions:
            known = self._known(number, name) if state is SessionState.ATTACHED else None
            yield known or ChannelSnapshot(
                number=number,
                knows_consumers=False,
                has_forgotten=True,
                closing=_DETACHING.get(state, ()),
                name=name,
            )

    def _known(self, number: int, name: bytes) -> ChannelSnapshot | None:
        """Return the state of an attachment; `None` if it cannot be told from what taps have been shown."""
        metered = None if self._meter is None else self._meter.session(number)
        last = None if self._meter is None else self._meter.last_commands(number)
        unshown = self._unshown_from(number)
        if self._meter is None or metered is None or last is None or unshown is None:
            return None
        if metered.is_resumed or min(last) < -1:
            return None  # what its earlier attachments have left is unknown
        published, delivered = int(min(last[0], unshown - 1)), last[1]
        unconfirmed, unacked, knows_all = self._open_messages(metered, published)
        is_transactional = metered.is_transactional or metered.is_distributed
        consumers = tuple(self._consumers(number, metered))
        has_all = self._meter.counts_all_consumers and len(consumers) == len(metered.consumers)
        return ChannelSnapshot(
            number=number,
            mode="dtx" if metered.is_distributed else "tx" if metered.is_transactional else "normal",
            published=published,
            delivered=delivered,
            unconfirmed=unconfirmed,
            unacked=unacked,
            has_forgotten=is_transactional or not knows_all,
            consumers=consumers,
            knows_consumers=has_all,
            requests=tuple(self._requests(number, metered)),
            contents=tuple(self._contents(self._meter, number, metered, is_shown=unshown == math.inf)),
            name=name,
        )

    def _consumers(self, number: int, metered: AttachmentMeter) -> Iterator[ConsumerSnapshot]:
        """Yield the subscriptions; rules may redact those that are complete, so the queues of others are left out."""
        view = self._views.get(number)
        for destination, subscribed in list(metered.consumers.items()):
            consumer = None if view is None else view.consumers.get(destination)
            queue: str | None = subscribed.queue
            if consumer is not None:
                destination, queue = consumer.consume.consumer_tag or destination, consumer.shown_queue
            elif self._cover is not None:
                queue = None
            shown = self._consumer(destination, queue, no_ack=subscribed.no_ack, exclusive=subscribed.exclusive)
            if shown is not None:
                yield shown

    def _requests(self, number: int, metered: AttachmentMeter) -> Iterator[RequestSnapshot]:
        """Yield the client's commands that await their replies, without those that are not kept, or redacted."""
        for position, request in metered.open_requests():
            if request.payload and self._may_show(CLIENT, number, request.payload):
                ts_ns = self._offset_ns + int(request.asked * 1e9)
                yield RequestSnapshot(ts_ns=ts_ns, sender=str(CLIENT), method=request.payload, number=position)

    def _contents(
        self, meter: Amqp010Meter, number: int, metered: AttachmentMeter, *, is_shown: bool
    ) -> Iterator[ContentSnapshot]:
        """Yield the commands under way; that of the client only if its beginning was shown."""
        for is_server in meter.commands_under_way(number):
            sender = SERVER if is_server else CLIENT
            if is_server or is_shown:
                payload = metered.transfer(is_server)
                has_method = payload and self._may_show(sender, number, payload)
                yield ContentSnapshot(sender=str(sender), method=payload if has_method else None)

    def _may_show(self, sender: Peer, number: int, payload: bytes) -> bool:
        """Whether no rule redacts a command."""
        if self._cover is None:
            return True
        view = method_view(sender, decode_method(COMMAND, payload))
        if view is None:
            return True
        covered = self._cover(sender, Command(view_channel(number), view))
        return covered is not None and covered.method == view

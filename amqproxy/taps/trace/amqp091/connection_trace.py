"""Trace of one 0-9-1 connection: its opening, its blocking and closing, and its channels."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import HEARTBEAT, METHOD, Frame
from amqproxy.amqp091.methods import (
    ChannelOpen,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTuneOk,
    ConnectionUnblocked,
    ConnectionUpdateSecret,
    Method,
)
from amqproxy.amqp091.transitions import ANSWERS, CLIENT, SENDERS, SERVER, Peer
from amqproxy.taps.trace.activity import Activity
from amqproxy.taps.trace.amqp091 import handshake
from amqproxy.taps.trace.amqp091.causes import RecentMethods, named_method, only_cause
from amqproxy.taps.trace.amqp091.channel_trace import MISSING_OPEN, ChannelTrace
from amqproxy.taps.trace.amqp091.frame_order import FrameOrder, Missing
from amqproxy.taps.trace.budget import MAX_MEMORY, Budget, Budgets
from amqproxy.taps.trace.event_queue import EventQueue, Listener
from amqproxy.taps.trace.events import (
    BlockingEnded,
    BlockingStarted,
    ConnectionClosed,
    HistoryLost,
    MessagePublished,
    RequestAnswered,
    RequestUnanswered,
    TraceEvent,
)
from amqproxy.taps.trace.handshake_facts import HandshakeFacts
from amqproxy.taps.trace.open_tags import MAX_SPANS
from amqproxy.taps.trace.requests import PendingRequests

MASKED = b"<masked>"

OnFrame = Callable[[Peer, Frame, int], None]
"""Takes a frame, its sender, and its time in nanoseconds."""


class Trace:
    """Trace of one connection, from its protocol header, or from the first frame that was seen of it.

    Frames are fed in the order in which they passed, with the time of their read, in nanoseconds; each call returns
    the events that they have caused. `body` is the number of bytes of each body that events contain, and `digests`
    whether they have a digest of the whole body; `max_spans` bounds the ranges of open publishes and deliveries
    (`open_tags`), `max_memory` the bytes of all other state.

    Unless it `is_ordered`, as in a capture, only the frames of each peer are fed in the order in which they passed: a
    frame that comes before the one it answers is held, and taken at the time of that frame. `on_frame` is given each
    frame when it is taken.

    `channels` are the client's open channels, by number; `facts` are those of the handshake, `activity` the times of
    the peers' last frames.
    """

    __slots__ = (
        "_blocked_ts_ns",
        "_body",
        "_budgets",
        "_closes",
        "_digests",
        "_epochs",
        "_events",
        "_is_closed",
        "_is_joined",
        "_is_open",
        "_is_unread",
        "_latest_ts_ns",
        "_on_frame",
        "_order",
        "_previous",
        "_queue",
        "_requests",
        "_seen",
        "_stray",
        "activity",
        "channels",
        "facts",
    )

    def __init__(
        self,
        *,
        body: int = 0,
        digests: bool = False,
        max_spans: int = MAX_SPANS,
        max_memory: int = MAX_MEMORY,
        is_ordered: bool = True,
        on_frame: OnFrame | None = None,
    ) -> None:
        self.channels: dict[int, ChannelTrace] = {}
        self._previous: dict[int, ChannelTrace] = {}
        self._epochs: dict[int, int] = {}
        """Last epoch of each channel number that is not in use."""
        self._body = body
        self._digests = digests
        self._budgets = Budgets(Budget(max_spans), Budget(max_memory))
        self._queue = EventQueue()
        self._events = self._queue.events
        self.facts = HandshakeFacts()
        self.activity = Activity()
        self._is_joined: bool | None = None
        self._closes: set[Peer] = set()
        self._is_open: bool | None = False
        self._is_closed = False
        self._is_unread = False
        self._blocked_ts_ns: int | None = None
        self._requests = PendingRequests(self._budgets.memory)
        self._stray = RecentMethods(self._budgets.memory)
        self._seen: set[str] = set()
        self._order = None if is_ordered else FrameOrder(self._budgets.memory, self._missing, self._previous)
        self._latest_ts_ns = 0
        self._on_frame = on_frame

    def listen(self, listener: Listener) -> None:
        """Show events to `listener` after each frame; see `EventQueue`."""
        self._queue.listen(listener)

    @property
    def reopened_channels(self) -> list[int]:
        """Numbers of channels that the broker has closed and the client has reopened without channel.close-ok."""
        return [number for number, channel in self._previous.items() if channel.lacks_close_ok]

    @property
    def memory_used(self) -> int:
        """Approximate memory of all open state, in bytes."""
        return self._budgets.bytes_used

    def feed_protocol_header(self, ts_ns: int) -> None:
        """Take the client's protocol header: nothing came before it. Section 4.2.2."""
        self.facts.greet(ts_ns)
        self._is_joined = False

    def feed(self, sender: Peer, frames: Iterable[Frame], ts_ns: int, *, is_by_proxy: bool = False) -> list[TraceEvent]:
        """Take frames of `sender` that one read has completed; `is_by_proxy` is whether the proxy sent them."""
        self.activity.note(sender, ts_ns)
        for frame in frames:
            if self._is_joined is None:
                self._begin(frame, ts_ns)
            if self._order is None:
                self._feed(sender, frame, ts_ns, is_by_proxy)
            else:
                self._feed_in_order(self._order, sender, frame, ts_ns, is_by_proxy)
        return self._queue.take()

    def end_content(self, sender: Peer, number: int, ts_ns: int) -> list[TraceEvent]:
        """Complete the content that `sender` has begun on a channel, if there is one, since its rest is not shown."""
        channel = self.channels.get(number)
        if channel is not None:
            channel.end_content(sender, ts_ns)
        return self._queue.take()

    def rewrite_publish(self, publish: MessagePublished) -> None:
        """Note that a rule has changed this publish, which may be returned as the broker has received it."""
        channel = self.channels.get(publish.channel)
        if channel is not None and channel.epoch == publish.epoch:
            channel.rewrite_publish(publish.number)

    def _feed(self, sender: Peer, frame: Frame, ts_ns: int, is_by_proxy: bool) -> None:
        if self._on_frame is not None:
            self._on_frame(sender, frame, ts_ns)
        try:
            if frame.channel:
                self._feed_channel(sender, frame, ts_ns)
            elif frame.kind == METHOD:
                self._feed_method(sender, frame.method, frame.size, ts_ns)
        except ProtocolError as error:
            self._lose(sender, error.reply_text, ts_ns)
        self._queue.end_frame(sender, is_by_proxy=is_by_proxy, is_heartbeat=frame.kind == HEARTBEAT)

    def _feed_in_order(self, order: FrameOrder, sender: Peer, frame: Frame, ts_ns: int, is_by_proxy: bool) -> None:
        """Take a frame, or hold it until the frame that it answers was seen; take the frames that were held for it."""
        if order.may_pass(sender, frame):
            self._feed_late(sender, frame, ts_ns, is_by_proxy)
            return
        if not order.hold(sender, frame, ts_ns, is_by_proxy):
            self._lose(sender, "too many frames were seen before what they answer", ts_ns)
            self._feed_held(order)
            self._feed_late(sender, frame, ts_ns, is_by_proxy)
            self._forget(ts_ns)
        while (found := order.next()) is not None:
            self._feed_late(found[0], *found[1])

    def _feed_late(self, sender: Peer, frame: Frame, ts_ns: int, is_by_proxy: bool) -> None:
        """Take a frame at its time, or at the time of the last frame taken, if that is later."""
        if ts_ns > self._latest_ts_ns:
            self._latest_ts_ns = ts_ns
        self._feed(sender, frame, self._latest_ts_ns, is_by_proxy)

    def _feed_held(self, order: FrameOrder) -> None:
        """Take all held frames, though the frames that they answer were not seen."""
        while (found := order.next_at_the_end()) is not None:
            self._feed_late(found[0], *found[1])

    def end_channel(self, number: int, ts_ns: int) -> list[TraceEvent]:
        """End the client's open channel with this number, if there is one, and report everything still open on it."""
        channel = self.channels.get(number)
        if channel is not None:
            channel.end(ts_ns)
            self._forget_channel(channel, number)
        return self._queue.take()

    def gap(self, sender: Peer, ts_ns: int, reason: str) -> list[TraceEvent]:
        """Report a loss of history: bytes of `sender` are missing, or could not be read as frames."""
        self._lose(sender, reason, ts_ns)
        if self._order is not None and self._order.count:
            self._feed_held(self._order)  # the frames that these wait for may have been missed
            self._forget(ts_ns)
        return self._queue.take()

    def end(self, ts_ns: int, reason: str) -> list[TraceEvent]:
        """Report everything still open, since the connection, or its visible part, has ended."""
        if self._order is not None:
            self._feed_held(self._order)
            ts_ns = max(self._latest_ts_ns, ts_ns)
        self._end_channels(ts_ns)
        for each in self._requests.clear():
            self._events.append(
                RequestUnanswered(ts_ns=ts_ns, sender=CLIENT, request=each.request, latency_ns=ts_ns - each.ts_ns)
            )
        if not self._is_closed:
            self._is_closed = True
            self._events.append(ConnectionClosed(ts_ns=ts_ns, by=None, code=0, text=reason, is_open=self._is_open))
        return self._queue.take()

    def _begin(self, frame: Frame, ts_ns: int) -> None:
        """Take the first frame: without a protocol header before it, only connection.start is the beginning."""
        self._is_joined = not (frame.kind == METHOD and frame.index == ConnectionStart.index)
        if self._is_joined:
            self._is_open = None
            self._requests.lose()
            self._stray.lose()
            self._events.append(HistoryLost(ts_ns=ts_ns, sender=None, reason="its beginning was not seen"))

    def _lose(self, sender: Peer, reason: str, ts_ns: int) -> None:
        self._events.append(HistoryLost(ts_ns=ts_ns, sender=sender, reason=reason))
        self._forget(ts_ns)

    def _forget(self, ts_ns: int) -> None:
        """Forget the requests and the state of all channels that later frames would be linked to."""
        self._is_joined = True
        self._is_open = self._is_open or None
        self._blocked_ts_ns = None
        self._requests.lose()
        self._stray.lose()
        for channel in self._all_channels():
            channel.lose(ts_ns)
            if self._is_unread:
                channel.stop_reading()

    def _all_channels(self) -> list[ChannelTrace]:
        return [*self._previous.values(), *self.channels.values()]

    def _end_channels(self, ts_ns: int) -> None:
        for channel in self._all_channels():
            channel.end(ts_ns)
        self._previous.clear()
        for number, channel in self.channels.items():
            self._epochs[number] = channel.epoch
        self.channels.clear()

    def _feed_channel(self, sender: Peer, frame: Frame, ts_ns: int) -> None:
        number = frame.channel
        if sender is CLIENT and frame.kind == METHOD and frame.index == ChannelOpen.index:
            self._open_channel(number, ts_ns)
        if self._previous and sender is SERVER and number in self._previous:
            self._feed_previous(number, frame, ts_ns)
            return
        channel = self.channels.get(number)
        if channel is None:
            if not self._is_joined:  # the channel is closed already, or was never opened
                if sender is CLIENT and frame.kind == METHOD:
                    self._stray.add(frame.method, frame.size)
                return
            channel = self._add_channel(number, knows_start=False)
        if channel.feed(sender, frame, ts_ns):
            channel.end(ts_ns)
            self._forget_channel(channel, number)

    def _open_channel(self, number: int, ts_ns: int) -> None:
        """Add a channel for the client's channel.open, and keep the one before it until its close-ok."""
        channel = self.channels.get(number)
        if channel is None and self._is_joined:
            channel = self._add_channel(number, knows_start=False)
        if channel is not None:
            if channel.knows_start and not channel.is_closing:
                return  # the broker will refuse it
            if number in self._previous:
                reason = "channel.open before the last two were closed"
                self._events.append(
                    HistoryLost(ts_ns=ts_ns, channel=number, epoch=channel.epoch, sender=CLIENT, reason=reason)
                )
                self._previous.pop(number).lose(ts_ns)
                channel.lose(ts_ns)
                return
            self._previous[number] = channel  # the client has not waited for close-ok, or close-ok was not seen
        self._add_channel(number, knows_start=True)

    def _feed_previous(self, number: int, frame: Frame, ts_ns: int) -> None:
        """Take a frame of the broker for the channel that had this number before the client reopened it."""
        previous = self._previous[number]
        if previous.is_opened and frame.kind == METHOD and frame.index == ChannelOpenOk.index:
            previous.lose(ts_ns)
            channel = self.channels.get(number)
            if channel is not None:
                channel.feed(SERVER, frame, ts_ns)
        elif previous.feed(SERVER, frame, ts_ns):
            previous.end(ts_ns)
        else:
            return
        del self._previous[number]

    def _add_channel(self, number: int, *, knows_start: bool) -> ChannelTrace:
        before = self.channels.get(number)
        last = self._epochs.pop(number, None) if before is None else before.epoch
        channel = ChannelTrace(
            number,
            self._events,
            self._budgets,
            knows_start=knows_start,
            epoch=int(knows_start) if last is None else last + 1,
            body=self._body,
            digests=self._digests,
        )
        if self._is_unread:
            channel.stop_reading()
        self.channels[number] = channel
        return channel

    def _forget_channel(self, channel: ChannelTrace, number: int) -> None:
        del self.channels[number]
        self._epochs[number] = channel.epoch

    def _feed_method(self, sender: Peer, method: Method, size: int, ts_ns: int) -> None:
        if sender not in SENDERS[method.name]:
            return
        self._seen.add(method.name)
        self.facts.take_step(method.name)
        match method:
            case ConnectionStart() | ConnectionStartOk() | ConnectionTuneOk() | ConnectionOpen():
                handshake.learn(self.facts, method)
            case ConnectionOpenOk():
                self._is_open = True
                self._events.append(self.facts.opened(ts_ns))
            case ConnectionBlocked():
                if self._blocked_ts_ns is None:
                    self._blocked_ts_ns = ts_ns
                self._events.append(BlockingStarted(ts_ns=ts_ns, reason=method.reason))
            case ConnectionUnblocked():
                since, self._blocked_ts_ns = self._blocked_ts_ns, None
                self._events.append(BlockingEnded(ts_ns=ts_ns, latency_ns=None if since is None else ts_ns - since))
            case ConnectionUpdateSecret():
                self._requests.add(ts_ns, msgspec.structs.replace(method, new_secret=MASKED), size=size)
            case ConnectionClose():
                self._close(sender, method, ts_ns)
            case ConnectionCloseOk():
                self._end_channels(ts_ns)
            case _ if method.name in ANSWERS:
                found = self._requests.match(method)
                self._events.append(
                    RequestAnswered(
                        ts_ns=ts_ns,
                        sender=sender.other,
                        request=found.request if found else None,
                        reply=method,
                        latency_ns=ts_ns - found.ts_ns if found else None,
                    )
                )
            case _:
                pass

    # --- frames that were seen too early

    def _missing(self, sender: Peer, frame: Frame) -> Missing | None:
        """Return the methods that a frame answers, or is about; `None` if they were seen, or if that is unknown."""
        try:
            method: Method = frame.method
        except ProtocolError:
            return None
        number = frame.channel
        if sender not in SENDERS[method.name]:
            return None
        if number == 0:
            return None if self._is_joined else self._missing_on_connection(sender, method)
        channel = self.channels.get(number)
        previous = self._previous.get(number)
        if isinstance(method, ChannelOpen):
            return None if previous is None else previous.missing_for_open()
        if sender is SERVER:
            channel = previous or channel
            if channel is None and (not self._is_joined or isinstance(method, ChannelOpenOk)):
                return MISSING_OPEN
        return None if channel is None else channel.missing(sender, method)

    def _missing_on_connection(self, sender: Peer, method: Method) -> Missing | None:
        name = _ANSWERED.get(method.name)
        if isinstance(method, ConnectionClose) and sender is SERVER:
            name = named_method(method)
            if name is None or self._has_cause(method, name):
                return None
            return Missing(frozenset((name,)), on_any_channel=True)
        if isinstance(method, ConnectionCloseOk):
            return None if sender.other in self._closes else Missing(frozenset(("connection.close",)))
        if method.name in ANSWERS and not self._requests.expects(method):
            return Missing(frozenset((ANSWERS[method.name],)))
        return None if name is None or name in self._seen else Missing(frozenset((name,)))

    def _has_cause(self, close: ConnectionClose, name: str) -> bool:
        """Whether a method of the client was seen that a close may be about."""
        if name.startswith("connection."):
            return name in self._seen
        return self._stray.has_cause(close) or any(each.has_cause(close) for each in self._all_channels())

    def _close(self, sender: Peer, close: ConnectionClose, ts_ns: int) -> None:
        self._closes.add(sender)
        cause = None
        if sender is SERVER:
            cause = only_cause([self._stray.causes(close), *(each.causes(close) for each in self._all_channels())])
        self._is_unread = True
        for channel in self._all_channels():
            channel.stop_reading()
        if self._is_closed:
            return  # closes of both peers crossed: the first one counts
        self._is_closed = True
        self._events.append(
            ConnectionClosed(
                ts_ns=ts_ns,
                by=sender,
                code=close.reply_code,
                text=close.reply_text,
                method=named_method(close),
                cause=cause,
                is_open=self._is_open,
            )
        )


_ANSWERED = {
    "connection.close-ok": "connection.close",
    "connection.open-ok": "connection.open",
    "connection.secure-ok": "connection.secure",
    "connection.start-ok": "connection.start",
    "connection.tune": "connection.start-ok",
    "connection.tune-ok": "connection.tune",
}
"""Method that each method of the handshake and of the close follows."""

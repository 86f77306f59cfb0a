"""Trace of one 0-9-1 connection: its opening, its blocking and closing, and its channels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import HEARTBEAT, METHOD, Frame
from amqproxy.amqp091.methods import (
    BasicPublish,
    ChannelClose,
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
from amqproxy.amqp091.protocol_header import NAME
from amqproxy.amqp091.transitions import ANSWERS, CLIENT, SENDERS, SERVER, Peer
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.trace.amqp091 import handshake
from amqproxy.taps.trace.amqp091.causes import RecentMethods, named_method, only_cause
from amqproxy.taps.trace.amqp091.channel_requests import decoded, snapshot_of
from amqproxy.taps.trace.amqp091.channel_trace import MISSING_OPEN, ChannelTrace
from amqproxy.taps.trace.amqp091.frame_order import FrameOrder, Missing
from amqproxy.taps.trace.connection_trace import ConnectionTrace
from amqproxy.taps.trace.events import (
    BlockingEnded,
    BlockingStarted,
    HistoryLost,
    MessagePublished,
    RequestAnswered,
    RequestUnanswered,
    TraceEvent,
)
from amqproxy.taps.trace.requests import PendingRequests
from amqproxy.taps.trace.snapshot import ConnectionSnapshot

MASKED = b"<masked>"


class Trace(ConnectionTrace[Frame, ChannelTrace]):
    """Trace of one 0-9-1 connection."""

    PROTOCOL = NAME

    __slots__ = ("_blocked_ts_ns", "_closes", "_previous", "_requests", "_rewritten", "_seen", "_stray")

    def __init__(self, **options: Any) -> None:
        self._previous: dict[int, ChannelTrace] = {}
        super().__init__(**options)
        self._blocked_ts_ns: int | None = None
        self._requests = PendingRequests(self._budgets.memory)
        self._stray = RecentMethods(self._budgets.memory)
        self._seen: set[str] = set()
        self._rewritten: set[int] = set()
        """Channels on which a rule has changed the incomplete publish."""

    def snapshot(self, ts_ns: int) -> ConnectionSnapshot:
        requests = self._requests.in_order() or ()
        return msgspec.structs.replace(
            super().snapshot(ts_ns),
            blocked_since_ns=self._blocked_ts_ns,
            requests=tuple(snapshot_of(CLIENT, each) for each in requests),
        )

    def _restoring(self, snapshot: ConnectionSnapshot) -> Iterator[None]:
        self._blocked_ts_ns = snapshot.blocked_since_ns
        self._requests.find()
        self._stray.lose()
        for each in snapshot.channels:
            number = each.number
            if number in self.channels:
                if not number or number in self._previous or not self.channels[number].is_closing:
                    raise ValueError(f"channel {number} is in a snapshot twice")
                self._previous[number] = self.channels.pop(number)
            channel = self._add_channel(number, knows_start=False, epoch=each.epoch)
            channel.restore(each)
            if self._is_unread:
                channel.stop_reading()
            yield
        for request in snapshot.requests:
            method = decoded(0, request.method)
            self._requests.add(request.ts_ns, method, size=len(request.method) + 8)

    def _drop_channels(self) -> None:
        self._previous.clear()
        for number, channel in self.channels.items():
            self._epochs[number] = channel.epoch
        self.channels.clear()

    @property
    def reopened_channels(self) -> list[int]:
        return [number for number, channel in self._previous.items() if channel.lacks_close_ok]

    def feed_noted(self, sender: Peer, frames: Sequence[Frame], ts_ns: int, note: Note) -> list[TraceEvent]:
        if note is NOTHING and not self._rewritten:
            return self.feed(sender, frames, ts_ns)
        events = super().feed_noted(sender, frames, ts_ns, note)
        if sender is CLIENT:
            self._note_rewritten(frames, events, note)
        elif note.is_of_proxy(sender):  # the client's answer goes to the proxy
            for frame in frames:
                if frame.kind == METHOD and frame.index == ChannelClose.index:
                    events += self.end_channel(frame.channel, ts_ns)
        return events

    def _note_rewritten(self, frames: Sequence[Frame], events: Sequence[TraceEvent], note: Note) -> None:
        """Note the publishes that a rule changed: they have frames on the client's leg alone.

        The broker may return the changed form.
        """
        rewritten = self._rewritten
        if note.leg == "client":
            rewritten.update(each.channel for each in frames if each.kind != METHOD or each.index == BasicPublish.index)
        for event in events if rewritten else ():
            if isinstance(event, MessagePublished) and event.channel in rewritten:
                rewritten.remove(event.channel)
                channel = self.channels.get(event.channel)
                if channel is not None and channel.epoch == event.epoch:
                    channel.rewrite_publish(event.number)

    def _new_order(self) -> FrameOrder:
        return FrameOrder(self._budgets.memory, self._missing, self._previous)

    def _is_first(self, frame: Frame) -> bool:
        return frame.kind == METHOD and frame.index == ConnectionStart.index

    def _begin(self, frame: Frame, ts_ns: int) -> None:
        super()._begin(frame, ts_ns)
        if self._is_joined:
            self._requests.lose()
            self._stray.lose()

    def _feed(self, sender: Peer, frame: Frame, ts_ns: int, is_by_proxy: bool) -> None:
        if self._on_frame is not None:
            self._on_frame(sender, frame, ts_ns)
        try:
            kind, number = frame.kind, frame.channel
            if not number:
                if kind == METHOD:
                    self._feed_method(sender, frame.method, frame.size, ts_ns)
            elif kind != METHOD and not self._previous and (channel := self.channels.get(number)) is not None:
                channel.feed(sender, frame, ts_ns)  # most frames are of contents, which close no channel
            else:
                self._feed_channel(sender, frame, ts_ns)
        except ProtocolError as error:
            self._lose(sender, error.reply_text, ts_ns)
        queue = self._queue
        if is_by_proxy or queue.has_listener:
            queue.end_frame(sender, is_by_proxy=is_by_proxy, is_heartbeat=frame.kind == HEARTBEAT)
        else:
            queue.ended = len(queue.events)

    def end_channel(self, number: int, ts_ns: int) -> list[TraceEvent]:
        channel = self.channels.get(number)
        if channel is not None:
            channel.end(ts_ns)
            self._forget_channel(channel, number)
        return self._queue.take()

    def _end_open(self, ts_ns: int) -> None:
        self._end_channels(ts_ns)
        for each in self._requests.clear():
            self._events.append(
                RequestUnanswered(ts_ns, sender=CLIENT, request=each.request, latency_ns=ts_ns - each.ts_ns)
            )

    def _forget(self, ts_ns: int, sender: Peer | None = None) -> None:
        if sender is not CLIENT:
            self._blocked_ts_ns = None
        self._requests.lose()
        if sender is not SERVER:
            self._stray.lose()
        for number, channel in self.channels.items():
            before = self._previous.get(number)
            if sender is None or not (before is None or before.is_opened):
                channel.forget_opening()
        if self._previous:  # of two channels with one number, missed frames hide which one later frames are on
            for number, previous in self._previous.items():
                previous.lose(ts_ns)
                if number in self.channels:
                    self.channels[number].lose(ts_ns)
        super()._forget(ts_ns, sender)

    def _channel_of(self, sender: Peer, number: int) -> ChannelTrace | None:
        return self.channels.get(number)

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
            if self.knows_state:  # the channel is closed already, or was never opened
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
        if channel is None and not self.knows_state:
            channel = self._add_channel(number, knows_start=False)
        if channel is not None:
            if channel.knows_state and not channel.is_closing:
                return  # the broker will refuse it
            if number in self._previous:
                reason = "channel.open before the last two were closed"
                self._events.append(HistoryLost(ts_ns, number, channel.epoch, sender=CLIENT, reason=reason))
                self._previous.pop(number).lose(ts_ns)
                channel.lose(ts_ns)
                channel.forget_opening()
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

    def _add_channel(self, number: int, *, knows_start: bool, epoch: int | None = None) -> ChannelTrace:
        before = self.channels.get(number)
        last = self._epochs.pop(number, None) if before is None else before.epoch
        channel = ChannelTrace(
            number,
            self._events,
            self._budgets,
            knows_start=knows_start,
            epoch=epoch if epoch is not None else int(knows_start) if last is None else last + 1,
            body=self._body,
            digests=self._digests,
        )
        channel.is_lagging = self._lag_end_ns is not None
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
                self._events.append(BlockingStarted(ts_ns, reason=method.reason))
            case ConnectionUnblocked():
                since, self._blocked_ts_ns = self._blocked_ts_ns, None
                self._events.append(BlockingEnded(ts_ns, latency_ns=None if since is None else ts_ns - since))
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
            if channel is None and (self.knows_state or isinstance(method, ChannelOpenOk)):
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
        cause = None
        if sender is SERVER:
            cause = only_cause([self._stray.causes(close), *(each.causes(close) for each in self._all_channels())])
        self._report_close(sender, close.reply_code, close.reply_text, named_method(close), ts_ns, cause)


_ANSWERED = {
    "connection.close-ok": "connection.close",
    "connection.open-ok": "connection.open",
    "connection.secure-ok": "connection.secure",
    "connection.start-ok": "connection.start",
    "connection.tune": "connection.start-ok",
    "connection.tune-ok": "connection.tune",
}
"""Method that each method of the handshake and of the close follows."""

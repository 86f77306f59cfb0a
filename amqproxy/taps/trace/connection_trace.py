"""Trace of one connection: what is common to all protocols."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar, Generic, TypeVar

from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.taps.note import Note
from amqproxy.taps.trace.activity import Activity
from amqproxy.taps.trace.budget import MAX_MEMORY, Budget, Budgets
from amqproxy.taps.trace.event_queue import EventQueue, Listener
from amqproxy.taps.trace.events import (
    ConnectionClosed,
    DeliveriesSettled,
    HistoryLost,
    Method,
    StateRestored,
    TraceEvent,
)
from amqproxy.taps.trace.handshake_facts import HandshakeFacts
from amqproxy.taps.trace.held_frames import F, HeldFrames
from amqproxy.taps.trace.open_tags import MAX_SPANS
from amqproxy.taps.trace.snapshot import ConnectionSnapshot
from amqproxy.taps.trace.steps import Steps, run
from amqproxy.taps.trace.traced_channel import TracedChannel

C = TypeVar("C", bound=TracedChannel)

MAX_SKEW_NS = 1_000_000_000
"""Time by which a frame may be captured later than frames of the other peer that were sent after it."""


class ConnectionTrace(ABC, Generic[F, C]):
    """Trace of one connection, from its protocol header, or from the first frame that was seen of it.

    Frames are fed in the order in which they passed, with the time of their read, in nanoseconds; each call returns
    the events that they have caused. `body` is the number of bytes of each body that events contain, and `digests`
    whether they have a digest of the whole body; `max_spans` bounds the ranges of open publishes and deliveries
    (`open_tags`), `max_memory` the bytes of all other state.

    Unless it `is_ordered`, as in a capture, only the frames of each peer are fed in the order in which they passed: a
    frame that comes before the one it answers is held, and taken at the time of that frame. `on_frame` is given each
    frame, its sender and its time in nanoseconds when it is taken.

    `channels` are the client's open channels, or sessions, by channel number; `facts` are those of the handshake,
    `activity` the times of the peers' last frames.
    """

    PROTOCOL: ClassVar[str]
    """Name of the protocol, as in a `ProtocolHeader`."""

    __slots__ = (
        "_body",
        "_budgets",
        "_closes",
        "_digests",
        "_epochs",
        "_events",
        "_is_closed",
        "_is_joined",
        "_is_open",
        "_is_restored",
        "_is_unread",
        "_lag_end_ns",
        "_latest_ts_ns",
        "_on_frame",
        "_order",
        "_queue",
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
        on_frame: Callable[[Peer, F, int], None] | None = None,
    ) -> None:
        self.channels: dict[int, C] = {}
        self._epochs: dict[int, int] = {}
        """Last epoch of each channel number."""
        self._body = body
        self._digests = digests
        self._budgets = Budgets(Budget(max_spans), Budget(max_memory))
        self._queue = EventQueue()
        self._events = self._queue.events
        self.facts = HandshakeFacts()
        self.activity = Activity()
        self._is_joined: bool | None = None
        self._is_restored = False
        self._is_open: bool | None = False
        self._is_closed = False
        self._closes: set[Peer] = set()
        """Peers that have sent connection.close."""
        self._is_unread = False
        self._order = None if is_ordered else self._new_order()
        self._latest_ts_ns = 0
        self._lag_end_ns: int | None = None
        """Time until which the client's frames may be older than missed frames of the broker."""
        self._on_frame = on_frame

    def listen(self, listener: Listener) -> None:
        """Show events to `listener` after each frame; see `EventQueue`."""
        self._queue.listen(listener)

    @property
    def knows_state(self) -> bool:
        """Whether the connection's state is known: from its beginning, or from a snapshot, without a loss since."""
        return self._is_restored or self._is_joined is False

    @property
    def is_fresh(self) -> bool:
        """Whether neither frames, a protocol header, a snapshot nor a loss were fed."""
        return self._is_joined is None

    def restore(self, snapshot: ConnectionSnapshot) -> list[TraceEvent]:
        """Take the state of the connection after the frames fed so far from a snapshot, unless the state is known.

        Commands that are open in the old state are reported as unknown first. Raises `ValueError` if the snapshot is
        impossible, after which the trace must not be used.
        """
        return run(self.restoring(snapshot))

    def restoring(self, snapshot: ConnectionSnapshot) -> Steps[list[TraceEvent]]:
        """Like `restore`, but yield after each channel, before which nothing else may be fed: 10,000 take 0.2 s."""
        if self.knows_state:
            return []
        yield from snapshot.checking()
        if snapshot.protocol != self.PROTOCOL:
            raise ValueError(f"a snapshot of {snapshot.protocol} in a connection of {self.PROTOCOL}")
        if self._is_joined is not None:
            self._forget(snapshot.ts_ns)
            self._drop_channels()
        self._is_joined = self._is_restored = True
        self._is_open = snapshot.is_open
        self._closes = {Peer(each) for each in snapshot.closing}
        self._is_closed = self._is_unread = bool(snapshot.closing)
        self.facts.restore(snapshot.handshake)
        yield from self._restoring(snapshot)
        self._events.append(
            StateRestored(
                snapshot.ts_ns,
                virtual_host=self.facts.virtual_host,
                user=self.facts.user,
                client_properties=self.facts.client_properties,
                blocked_since_ns=snapshot.blocked_since_ns,
                snapshot=snapshot,
            )
        )
        return self._queue.take()

    def snapshot(self, ts_ns: int) -> ConnectionSnapshot:
        """Return the state of the connection after all frames that were fed so far."""
        return ConnectionSnapshot(
            ts_ns=ts_ns,
            protocol=self.PROTOCOL,
            handshake=self.facts.snapshot(),
            is_open=self._is_open,
            closing=tuple(str(peer) for peer in Peer if peer in self._closes),
            channels=tuple(each.snapshot(is_unread=self._is_unread) for each in self._all_channels()),
        )

    @abstractmethod
    def _restoring(self, snapshot: ConnectionSnapshot) -> Iterator[None]:
        """Take the channels and requests of a snapshot of this protocol; yield after each channel."""

    @abstractmethod
    def _drop_channels(self) -> None:
        """Remove all channels, on which nothing is open."""

    @property
    def reopened_channels(self) -> list[int]:
        """Numbers of channels that the broker has closed and the client has reopened without channel.close-ok."""
        return []

    @property
    def memory_used(self) -> int:
        """Approximate memory of all open state, in bytes."""
        return self._budgets.bytes_used

    def feed_protocol_header(self, ts_ns: int) -> None:
        """Take the client's protocol header: nothing came before it."""
        self.facts.greet(ts_ns)
        self._is_joined = False

    def feed(self, sender: Peer, frames: Iterable[F], ts_ns: int, *, is_by_proxy: bool = False) -> list[TraceEvent]:
        """Take frames of `sender` that one read has completed; `is_by_proxy` is whether the proxy sent them."""
        self.activity.note(sender, ts_ns)
        order, feed = self._order, self._feed
        for frame in frames:
            if self._is_joined is None:
                self._begin(frame, ts_ns)
            if order is None:
                feed(sender, frame, ts_ns, is_by_proxy)
            else:
                self._feed_in_order(order, sender, frame, ts_ns, is_by_proxy)
        return self._queue.take()

    def feed_noted(self, sender: Peer, frames: Sequence[F], ts_ns: int, note: Note) -> list[TraceEvent]:
        """Take frames; end the contents and channels whose rest is not shown, since the proxy answered them itself."""
        events = self.feed(sender, frames, ts_ns, is_by_proxy=note.is_of_proxy(sender))
        if note.ends_content and frames:
            events += self.end_content(sender, frames[-1].channel, ts_ns)
        return events

    def end_content(self, sender: Peer, number: int, ts_ns: int) -> list[TraceEvent]:
        """Complete the message that `sender` has begun on a channel, if there is one, since its rest is not shown."""
        channel = self._channel_of(sender, number)
        if channel is not None:
            channel.end_content(sender, ts_ns)
        return self._queue.take()

    @abstractmethod
    def end_channel(self, number: int, ts_ns: int) -> list[TraceEvent]:
        """End the client's open channel with this number, if there is one, and report everything still open on it."""

    def gap(self, sender: Peer, ts_ns: int, reason: str, *, is_other_whole: bool = False) -> list[TraceEvent]:
        """Report a loss of history: bytes of `sender` are missing, or could not be read as frames.

        If the bytes of the other peer `is_other_whole`, what these alone determine remains known.
        """
        self.activity.forget()
        order, missed = self._order, sender if is_other_whole else None
        if order is None or not order.count:
            self._lose(sender, reason, ts_ns, missed)
        elif missed is SERVER and order.may_follow_loss(missed):
            self._lose(sender, reason, ts_ns, missed)
            self._feed_released(order)
        else:
            self._lose(sender, reason, ts_ns)
            self._feed_held(order)  # the frames that these wait for may have been missed
            self._forget(ts_ns)
        return self._queue.take()

    def end(self, ts_ns: int, reason: str) -> list[TraceEvent]:
        """Report everything still open, since the connection, or its visible part, has ended."""
        if self._order is not None:
            self._feed_held(self._order)
            ts_ns = max(self._latest_ts_ns, ts_ns)
        self._end_open(ts_ns)
        if not self._is_closed:
            self._is_closed = True
            self._append_closed(ts_ns, None, 0, reason)
        return self._queue.take()

    # --- frames

    @abstractmethod
    def _new_order(self) -> HeldFrames[F]:
        """Make the order of the frames of both peers."""

    @abstractmethod
    def _feed(self, sender: Peer, frame: F, ts_ns: int, is_by_proxy: bool) -> None:
        """Take a frame in its turn."""

    def _feed_in_order(self, order: HeldFrames[F], sender: Peer, frame: F, ts_ns: int, is_by_proxy: bool) -> None:
        """Take a frame, or hold it until the frame that it answers was seen; take the frames that were held for it."""
        if order.may_pass(sender, frame):
            self._feed_late(sender, frame, ts_ns, is_by_proxy)
        elif not order.hold(sender, frame, ts_ns, is_by_proxy):
            self._lose(sender, "too many frames were seen before what they answer", ts_ns)
            self._feed_held(order)
            self._feed_late(sender, frame, ts_ns, is_by_proxy)
            self._forget(ts_ns)
        self._feed_released(order)

    def _feed_released(self, order: HeldFrames[F]) -> None:
        """Take the held frames that wait no longer."""
        while order.count and (found := order.next()) is not None:
            self._feed_late(found[0], *found[1])

    def _feed_late(self, sender: Peer, frame: F, ts_ns: int, is_by_proxy: bool) -> None:
        """Take a frame at its time, or at the time of the last frame taken, if that is later."""
        if ts_ns > self._latest_ts_ns:
            self._latest_ts_ns = ts_ns
        if self._lag_end_ns is not None and self._latest_ts_ns > self._lag_end_ns:
            self._set_lag(None)
        self._feed(sender, frame, self._latest_ts_ns, is_by_proxy)
        if self._lag_end_ns is not None and sender is CLIENT and self._has_settled(self._lag_end_ns - MAX_SKEW_NS):
            self._set_lag(None)

    def _has_settled(self, since_ns: int) -> bool:
        """Whether the client's last frame has settled a delivery that came after `since_ns`."""
        last = self._events[-1] if self._events else None
        return isinstance(last, DeliveriesSettled) and bool(last.spans) and last.spans[-1].ts_ns > since_ns

    def _feed_held(self, order: HeldFrames[F]) -> None:
        """Take all held frames, though the frames that they answer were not seen."""
        while (found := order.next_at_the_end()) is not None:
            self._feed_late(found[0], *found[1])

    @abstractmethod
    def _is_first(self, frame: F) -> bool:
        """Whether a frame is connection.start, before which only a protocol header comes."""

    def _begin(self, frame: F, ts_ns: int) -> None:
        """Take the first frame: without a protocol header before it, only connection.start is the beginning."""
        self._is_joined = not self._is_first(frame)
        if self._is_joined:
            self._is_open = None
            self._events.append(HistoryLost(ts_ns, sender=None, reason="its beginning was not seen"))
            if self._order is not None:  # answers to its first frames may have been captured before them
                self._lag_end_ns = ts_ns + MAX_SKEW_NS

    def _lose(self, sender: Peer, reason: str, ts_ns: int, missed: Peer | None = None) -> None:
        """Report a loss of frames of `sender`; only those of the peer `missed`, or else of both, are missing."""
        self._events.append(HistoryLost(ts_ns, sender=sender, reason=reason))
        self._forget(ts_ns, missed)
        if self._order is not None and missed is not CLIENT:
            self._set_lag(ts_ns + MAX_SKEW_NS)
        if self._order is not None and missed is not SERVER:
            for channel in self._all_channels():
                channel.doubt_deliveries(ts_ns + MAX_SKEW_NS)

    def _set_lag(self, end_ns: int | None) -> None:
        """Doubt the answers to the client's frames until `end_ns`, or no longer."""
        self._lag_end_ns = end_ns
        for channel in self._all_channels():
            channel.is_lagging = end_ns is not None

    def _forget(self, ts_ns: int, sender: Peer | None = None) -> None:
        """Forget everything that missed frames of `sender`, or of both peers, could change."""
        self._is_joined = True
        self._is_restored = False
        self._is_open = self._is_open or None
        for channel in self._all_channels():
            channel.lose(ts_ns, sender)
            if self._is_unread:
                channel.stop_reading()

    # --- channels and the end

    @abstractmethod
    def _channel_of(self, sender: Peer, number: int) -> C | None:
        """Return the channel that `sender` means by a number; `None` if there is none."""

    @abstractmethod
    def _all_channels(self) -> list[C]:
        """Return all channels of either peer."""

    @abstractmethod
    def _end_channels(self, ts_ns: int) -> None:
        """End all channels."""

    def _end_open(self, ts_ns: int) -> None:
        """End everything open."""
        self._end_channels(ts_ns)

    def _report_close(
        self, sender: Peer, code: int, text: str, method: str | None, ts_ns: int, cause: Method | None = None
    ) -> None:
        """Report connection.close of `sender`, after which the broker reads nothing on any channel."""
        self._closes.add(sender)
        self._is_unread = True
        for channel in self._all_channels():
            channel.stop_reading()
        if self._is_closed:
            return  # closes of both peers crossed: the first one counts
        self._is_closed = True
        self._append_closed(ts_ns, sender, code, text, method, cause)

    def _append_closed(
        self,
        ts_ns: int,
        by: Peer | None,
        code: int,
        text: str,
        method: str | None = None,
        cause: Method | None = None,
    ) -> None:
        is_open = self._is_open
        handshake = self.facts.snapshot() if is_open is False else None
        self._events.append(
            ConnectionClosed(
                ts_ns, by=by, code=code, text=text, method=method, cause=cause, is_open=is_open, handshake=handshake
            )
        )

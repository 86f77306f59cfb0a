"""Trace of one connection, from the frames shown to taps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias, TypeVar, cast

from amqproxy.amqp010.frame import Frame as Amqp010Frame
from amqproxy.amqp091.frame import METHOD, Frame
from amqproxy.amqp091.methods import BasicPublish, ChannelClose
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.trace.activity import Activity
from amqproxy.taps.trace.amqp010.attachment_trace import AttachmentTrace
from amqproxy.taps.trace.amqp010.connection_trace import Amqp010Trace
from amqproxy.taps.trace.amqp091.channel_trace import ChannelTrace
from amqproxy.taps.trace.amqp091.connection_trace import Trace
from amqproxy.taps.trace.event_queue import Listener
from amqproxy.taps.trace.events import MessagePublished, TraceEvent
from amqproxy.taps.trace.handshake_facts import HandshakeFacts

Frames: TypeAlias = Sequence[Frame] | Sequence[Amqp010Frame]
"""Frames of one protocol."""


OnAnyFrame: TypeAlias = Callable[[Peer, Frame | Amqp010Frame, int], None]
"""Takes a frame of either protocol, its sender, and its time in nanoseconds."""


class SessionTrace:
    """A trace that takes frames of either protocol, with the effect of rules on the command that they belong to.

    The first frames show the protocol. If a command differs between the two legs, only the frames of one leg must be
    fed. The options are those of `Trace`.
    """

    __slots__ = (
        "_amqp010",
        "_amqp091",
        "_greeted_ts_ns",
        "_is_known",
        "_listener",
        "_on_frame",
        "_options",
        "_rewritten",
    )

    def __init__(
        self, *, body: int = 0, digests: bool = False, is_ordered: bool = True, on_frame: OnAnyFrame | None = None
    ) -> None:
        self._options = (body, digests, is_ordered)
        self._on_frame = on_frame
        self._amqp091 = Trace(body=body, digests=digests, is_ordered=is_ordered, on_frame=on_frame)
        self._amqp010: Amqp010Trace | None = None
        self._is_known = False
        self._greeted_ts_ns: int | None = None
        self._listener: Listener | None = None
        self._rewritten: set[int] = set()
        """0-9-1 channels on which a rule has changed the incomplete publish."""

    @property
    def _trace(self) -> Trace | Amqp010Trace:
        return self._amqp010 or self._amqp091

    @property
    def channels(self) -> Mapping[int, ChannelTrace | AttachmentTrace]:
        """The client's open channels or sessions, by number."""
        return self._trace.channels

    @property
    def reopened_channels(self) -> list[int]:
        """Numbers of channels that the broker has closed and the client has reopened without channel.close-ok."""
        return self._trace.reopened_channels

    @property
    def facts(self) -> HandshakeFacts:
        """Facts that the handshake has shown."""
        return self._trace.facts

    @property
    def activity(self) -> Activity:
        """Times of the peers' last frames."""
        return self._trace.activity

    @property
    def memory_used(self) -> int:
        """Approximate memory of all open state, in bytes."""
        return self._trace.memory_used

    def listen(self, listener: Listener) -> None:
        """Show events to `listener` after each frame, as `Trace.listen` does."""
        self._listener = listener
        self._trace.listen(listener)

    def feed_protocol_header(self, ts_ns: int) -> None:
        """Take the client's protocol header."""
        self._greeted_ts_ns = ts_ns
        self._trace.feed_protocol_header(ts_ns)

    def feed_noted(self, sender: Peer, frames: Frames, ts_ns: int, note: Note = NOTHING) -> list[TraceEvent]:
        """Take frames; end the contents and channels whose rest is not shown, since the proxy answered them itself."""
        if not self._is_known and frames:
            self._is_known = True
            if isinstance(frames[0], Amqp010Frame):
                self._trace_amqp010()
        if self._amqp010 is not None:
            events = self._amqp010.feed(
                sender, cast("Sequence[Amqp010Frame]", frames), ts_ns, is_by_proxy=note.is_of_proxy(sender)
            )
            if note.ends_content and frames:
                events += self._amqp010.end_content(sender, frames[-1].channel, ts_ns)
            return events
        return self._feed_amqp091(sender, cast("Sequence[Frame]", frames), ts_ns, note)

    def _trace_amqp010(self) -> None:
        body, digests, is_ordered = self._options
        self._amqp010 = Amqp010Trace(body=body, digests=digests, is_ordered=is_ordered, on_frame=self._on_frame)
        if self._greeted_ts_ns is not None:
            self._amqp010.feed_protocol_header(self._greeted_ts_ns)
        if self._listener is not None:
            self._amqp010.listen(self._listener)

    def _feed_amqp091(self, sender: Peer, frames: Sequence[Frame], ts_ns: int, note: Note) -> list[TraceEvent]:
        trace = self._amqp091
        is_by_proxy = note.is_of_proxy(sender)
        events = trace.feed(sender, frames, ts_ns, is_by_proxy=is_by_proxy)
        if note.ends_content and frames:
            events += trace.end_content(sender, frames[-1].channel, ts_ns)
        if sender is CLIENT:
            self._note_rewritten(frames, events, note)
        if sender is SERVER and is_by_proxy:  # the client's answer goes to the proxy
            for frame in frames:
                if frame.kind == METHOD and frame.index == ChannelClose.index:
                    events += trace.end_channel(frame.channel, ts_ns)
        return events

    def _note_rewritten(self, frames: Sequence[Frame], events: Sequence[TraceEvent], note: Note) -> None:
        """Note the publishes whose method or header differs between the legs; their bodies may not differ."""
        rewritten = self._rewritten
        if note.leg == "client":
            rewritten.update(each.channel for each in frames if each.kind != METHOD or each.index == BasicPublish.index)
        if rewritten:
            for event in events:
                if isinstance(event, MessagePublished) and event.channel in rewritten:
                    rewritten.remove(event.channel)
                    self._amqp091.rewrite_publish(event)

    def gap(self, sender: Peer, ts_ns: int, reason: str) -> list[TraceEvent]:
        """Report a loss of history: bytes of `sender` are missing, or could not be read as frames."""
        if not self._is_known:
            self._greeted_ts_ns = None
        return self._trace.gap(sender, ts_ns, reason)

    def end(self, ts_ns: int, reason: str) -> list[TraceEvent]:
        """Report everything still open, since the connection, or its visible part, has ended."""
        return self._trace.end(ts_ns, reason)


SESSIONS_A_STEP = 100
"""Number of sessions whose memory is added up in one step."""


class MemoryUser(Protocol):
    """An object that takes memory for one connection."""

    @property
    def memory_used(self) -> int:
        """Approximate memory, in bytes."""


U = TypeVar("U", bound=MemoryUser)


def to_relieve(users: Iterable[U], most: int) -> Iterator[U]:
    """Yield the users with the most memory, one by one, until all together take no more than `most` bytes.

    The caller makes each of them forget something before it asks for the next.
    """
    ordered = sorted(users, key=lambda user: user.memory_used, reverse=True)
    total = sum(user.memory_used for user in ordered)
    for user in ordered:
        if total <= most:
            break
        total -= user.memory_used
        yield user
        total += user.memory_used


def relieve_in_steps(users: Callable[[], Sequence[U]], most: int, forget: Callable[[U], None]) -> Iterator[None]:
    """Make the largest users `forget` their open state while all together take more than `most` bytes.

    Yields after every `SESSIONS_A_STEP` users, so that other tasks can run; `users` is called again after that.
    """
    total = 0
    for looked_at, each in enumerate(users(), 1):
        total += each.memory_used
        if not looked_at % SESSIONS_A_STEP:
            yield
    if total > most:
        for each in to_relieve(users(), most):
            forget(each)
            yield

"""Trace of one connection, from the frames shown to taps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from amqproxy.peer import Peer
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.trace.activity import Activity
from amqproxy.taps.trace.connection_trace import ConnectionTrace
from amqproxy.taps.trace.dialects import TRACES, UNKNOWN, trace_of
from amqproxy.taps.trace.event_queue import Listener
from amqproxy.taps.trace.events import TraceEvent
from amqproxy.taps.trace.handshake_facts import HandshakeFacts
from amqproxy.taps.trace.snapshot import ConnectionSnapshot
from amqproxy.taps.trace.steps import Steps, run
from amqproxy.taps.trace.traced_channel import TracedChannel


class SessionTrace:
    """A trace that takes frames of any protocol, with the effect of rules on the command that they belong to.

    The first frames show the protocol. If a command differs between the two legs, only the frames of one leg must be
    fed. The `options` are those of `ConnectionTrace`.
    """

    __slots__ = ("_greeted_ts_ns", "_is_known", "_listener", "_options", "_trace")

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._trace: ConnectionTrace[Any, Any] = UNKNOWN(**options)
        self._is_known = False
        self._greeted_ts_ns: int | None = None
        self._listener: Listener | None = None

    @property
    def channels(self) -> Mapping[int, TracedChannel]:
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
        """Show events to `listener` after each frame, as `ConnectionTrace.listen` does."""
        self._listener = listener
        self._trace.listen(listener)

    def feed_protocol_header(self, ts_ns: int) -> None:
        """Take the client's protocol header."""
        self._greeted_ts_ns = ts_ns
        self._trace.feed_protocol_header(ts_ns)

    def feed_noted(self, sender: Peer, frames: Sequence[Any], ts_ns: int, note: Note = NOTHING) -> list[TraceEvent]:
        """Take frames; end the contents and channels whose rest is not shown, since the proxy answered them itself."""
        if not self._is_known and frames:
            self._is_known = True
            self._choose(trace_of(frames[0]))
        return self._trace.feed_noted(sender, frames, ts_ns, note)

    def restore(self, snapshot: ConnectionSnapshot | None) -> list[TraceEvent]:
        """Take the state of the connection after all frames that were fed so far, unless it is known.

        A snapshot that contradicts itself, or the protocol of the frames, leaves the trace as it was: another program
        may have made it, or it is damaged.
        """
        if snapshot is None or self._trace.knows_state:
            return []
        return run(self.restoring(snapshot))

    def restoring(self, snapshot: ConnectionSnapshot) -> Steps[list[TraceEvent]]:
        """Like `restore`, in steps, between which nothing may be fed; one is long if frames were fed before."""
        if self._trace.knows_state:
            return []
        kind = type(self._trace) if self._is_known else TRACES.get(snapshot.protocol)
        if kind is None:
            return []
        before, trial = self._trace, kind(**self._options)
        is_fresh = before.is_fresh
        if is_fresh:  # with 10,000 channels, to restore them again would take as long as the first time
            self._trace = trial  # the listener reads the facts of the trace whose events it is shown
            if self._listener is not None:
                trial.listen(self._listener)
        try:
            events = yield from trial.restoring(snapshot)
        except ValueError:
            self._trace = before
            return []
        if is_fresh:
            return events
        self._choose(kind)  # until the first frame, whose protocol counts
        return self._trace.restore(snapshot)

    def snapshot(self, ts_ns: int) -> ConnectionSnapshot:
        """Return the state of the connection after all frames that were fed so far."""
        return self._trace.snapshot(ts_ns)

    def _choose(self, kind: type[ConnectionTrace[Any, Any]]) -> None:
        if isinstance(self._trace, kind):
            return
        self._trace = kind(**self._options)
        if self._greeted_ts_ns is not None:
            self._trace.feed_protocol_header(self._greeted_ts_ns)
        if self._listener is not None:
            self._trace.listen(self._listener)

    def gap(self, sender: Peer, ts_ns: int, reason: str, *, is_other_whole: bool = False) -> list[TraceEvent]:
        """Report a loss of history, as `ConnectionTrace.gap`."""
        if not self._is_known:
            self._greeted_ts_ns = None
        return self._trace.gap(sender, ts_ns, reason, is_other_whole=is_other_whole)

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

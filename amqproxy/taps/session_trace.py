"""The trace of one connection, from what taps are shown of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from amqproxy.amqp091.frame import METHOD, Frame
from amqproxy.amqp091.methods import ChannelClose
from amqproxy.amqp091.transitions import SERVER, Peer
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.trace.connection_trace import Trace
from amqproxy.taps.trace.events import TraceEvent


class SessionTrace(Trace):
    """A trace that takes frames with what rules did to the command that they belong to.

    Of commands that differ between the two legs, the frames of one leg only are to be fed.
    """

    __slots__ = ()

    def feed_noted(self, sender: Peer, frames: Sequence[Frame], ts_ns: int, note: Note = NOTHING) -> list[TraceEvent]:
        """Take frames, and end what they end since the proxy did that itself."""
        events = self.feed(sender, frames, ts_ns)
        if note.ends_content and frames:
            events += self.end_content(sender, frames[-1].channel, ts_ns)
        if sender is SERVER and note.leg == "client":  # sent by the proxy, to which the client's answer goes
            for frame in frames:
                if frame.kind == METHOD and frame.index == ChannelClose.index:
                    events += self.end_channel(frame.channel, ts_ns)
        return events


SESSIONS_A_STEP = 100
"""Sessions whose memory is added up in one step."""


class MemoryUser(Protocol):
    """What takes memory for one connection."""

    @property
    def memory_used(self) -> int:
        """Bytes, about."""


U = TypeVar("U", bound=MemoryUser)


def to_relieve(users: Iterable[U], most: int) -> Iterator[U]:
    """Those that take the most memory, one after the other, until all together take no more than `most` bytes.

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
    """Have the users `forget` what is open where all together take more than `most` bytes.

    Some are looked at in each step, so that others have their turn; `users` is asked again after that.
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

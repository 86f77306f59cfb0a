"""What stands between the two legs of a session, as the session sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.transitions import Peer
from amqproxy.proxy.interception.effects import InterceptorEffects, InterceptorFault
from amqproxy.rules.context import Client
from amqproxy.rules.verdict import Impairment, Verdict
from amqproxy.taps.note import Note


class CoveredView(Protocol):
    """Knows what of the client and its commands may be shown, as redactions leave it."""

    @property
    def shown_client(self) -> Client:
        """What is known of the client so far."""

    def covered_method(self, sender: Peer, command: Command) -> Command | None:
        """A command as logs may show it, without its body; None: not at all."""


class Passage(Protocol):
    """Takes the frames of each peer, and returns what is sent to either: a `PassThrough`, or an `Interceptor`.

    It does no input or output; the time is passed in. It shows each leg's `Connection` what really passes on it.
    Methods that count for the session itself are handed to the session as they pass.

    While it `relays_unseen`, what a reader has taken without handing over a frame is sent on as it is, shown to taps if
    it `is_tapped`, and not taken here. What its `gate` does not let by goes no further; once it `is_draining`, channels
    are no longer shown to the legs. `ask_for_frames` after changing one of these.
    """

    gate: Callable[[Peer, Frame], bool] | None
    is_draining: bool
    is_tapped: bool

    @property
    def relays_unseen(self) -> bool:
        """Need chunks of which no frame was handed over not be taken here?"""

    @property
    def client(self) -> Client:
        """What is known of the client so far."""

    @property
    def shown_client(self) -> Client:
        """The same as logs and operators may see it: as redactions leave it."""

    def covered_method(self, sender: Peer, command: Command) -> Command | None:
        """A command as logs may show it, without its body; None: not at all."""

    # --- frames

    def ask_for_frames(self) -> None:
        """Have the readers hand over what is needed, and no more."""

    def take(self, sender: Peer, frames: list[Frame], now: float) -> None:
        """Take what the sender's reader has just been fed, `frames` of which it has handed over.

        `ProtocolError` at the first that may not come; those before it have passed then.
        """

    def take_output(self, to: Peer) -> bytes | memoryview:
        """All that is to be sent to a peer now."""

    def take_passed(self, sender: Peer) -> Iterable[tuple[Note, Sequence[Frame]]]:
        """What taps are to see of `sender`, and what they are to know of it."""

    def take_effects(self) -> InterceptorEffects | None:
        """What rules want besides; None where there are none, and so nothing waits."""

    def is_full(self, sender: Peer) -> bool:
        """Is nothing more to be read from a peer for now, since too much that it sent waits here?"""

    # --- the end of the connection

    @property
    def refusal(self) -> ProtocolError | None:
        """Set when a rule wants the connection closed."""

    @property
    def fault(self) -> InterceptorFault | None:
        """Set when what has waited cannot go on."""

    @property
    def is_over(self) -> bool:
        """Does the connection have to end, for one or the other?"""

    def end(self) -> None:
        """The session is over."""

    # --- commands that wait

    @property
    def waiting(self) -> Mapping[int, object]:
        """The commands that wait, by a number of each."""

    @property
    def next_deadline(self) -> float:
        """When `tick` will next have something to do, in seconds."""

    @property
    def is_releasing(self) -> bool:
        """Is `go_on_releasing` to go on?"""

    def tick(self, now: float) -> None:
        """Send on what has waited long enough."""

    def release(self, number: int, verdict: Verdict | None, now: float) -> None:
        """Send on a held command, with another verdict if one is given. `KeyError` when it is not held."""

    def release_all(self, now: float) -> None:
        """Begin to send on everything that waits now."""

    def go_on_releasing(self, now: float) -> None:
        """One turn of what `release_all` has begun."""

    # --- rules

    def start(self, now: float, *, is_open: bool) -> Iterable[Impairment]:
        """What rules about connections as such want to be done to the bytes of this one."""

    def count_unseen(self) -> None:
        """Have the rules count what has passed unseen so far."""

"""What stands between the two legs of a session, as the session sees it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.peer import Peer
from amqproxy.proxy.interception.effects import InterceptorEffects, InterceptorFault
from amqproxy.rules.context import Client
from amqproxy.rules.verdict import Close, Impairment, Verdict
from amqproxy.taps.note import Note


class CoveredView(Protocol):
    """Knows what of the client and its commands may be shown, as redactions leave it."""

    @property
    def shown_client(self) -> Client:
        """What is known of the client so far."""

    def covered_method(self, sender: Peer, command: Command) -> Command | None:
        """A command as logs may show it, without its body; None: not at all."""


class Passage(Protocol):
    """Takes the frames of each peer, and returns what is sent to either: a pass-through, or an interceptor.

    It does no input or output; the time is passed in. It shows each leg's `Connection` what really passes on it.
    Methods that count for the session itself are handed to the session as they pass. Frames are those of its protocol,
    and so are the commands that rules and logs see: of 0-10, as `conversion` has them.

    While it `relays_unseen`, a chunk of which the reader has handed over no frame need not be taken here. What its
    `gate` does not let by goes no further. `ask_for_frames` after changing that, or `is_tapped`.
    """

    gate: Callable[[Peer, Any], bool] | None
    is_tapped: bool

    @property
    def relays_unseen(self) -> bool:
        """Whether chunks of which no frame was handed over can be relayed without being taken here."""

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

    def take(self, sender: Peer, frames: list[Any], now: float) -> None:
        """Take what the sender's reader has just been fed, `frames` of which it has handed over.

        `ProtocolError` at the first that may not come; those before it have passed then.
        """

    def take_output(self, to: Peer) -> bytes | memoryview:
        """All that is to be sent to a peer now."""

    def take_passed(self, sender: Peer) -> Iterable[tuple[Note, Any]]:
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


class AnyInterceptor(Passage, Protocol):
    """A passage with rules, which can also pause and close channels for an operator."""

    evaluator: Any

    @property
    def paused_channels(self) -> list[int]:
        """The numbers of the channels on which the client's commands wait to be resumed."""

    def pause_channel(self, number: int, now: float) -> None:
        """Queue the client's commands on a channel from the next one on, in order."""

    def resume_channel(self, number: int, now: float) -> None:
        """Go on with what the client has sent on a paused channel."""

    def close_channel(self, number: int, close: Close, now: float) -> None:
        """Close a channel for both peers, as soon as no content is under way on it."""


class NothingWaits:
    """The part of a `Passage` that only rules need, for one without any."""

    __slots__ = ()

    refusal = None
    fault = None
    is_over = False
    is_releasing = False
    waiting: Mapping[int, object] = MappingProxyType({})
    next_deadline = math.inf

    def take_effects(self) -> None:
        return None

    def is_full(self, sender: Peer) -> bool:
        return False

    def tick(self, now: float) -> None:
        """Nothing waits."""

    def release(self, number: int, verdict: Verdict | None, now: float) -> None:
        """`KeyError`, since nothing is held."""
        raise KeyError(number)

    def release_all(self, now: float) -> None:
        """Nothing waits."""

    def go_on_releasing(self, now: float) -> None:
        """Nothing waits."""

    def start(self, now: float, *, is_open: bool) -> tuple[Impairment, ...]:
        return ()

    def count_unseen(self) -> None:
        """Nothing is counted."""

    def covered_method(self, sender: Peer, command: Command) -> Command | None:
        return command

"""The interface of the passage between the two legs of a session: a pass-through, or an interceptor with rules."""

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
from amqproxy.rules.verdict import Impairment, Verdict
from amqproxy.taps.note import Note


class Passage(Protocol):
    """Frame processor between the legs: takes each peer's frames and returns the bytes to send to either.

    It does no input or output; the time is passed in. It shows each leg's `Connection` the frames that really pass on
    it. Methods that matter to the session itself are reported to it as they pass. Frames have the type of their
    protocol; the commands that rules and logs see are those of 0-9-1, as `conversion` makes them.

    While it `relays_unseen`, a chunk of which the reader has handed over no frame need not be taken here. Frames that
    its `gate` rejects are dropped. Call `ask_for_frames` after changing `gate` or `is_tapped`.
    """

    gate: Callable[[Peer, Any], bool] | None
    is_tapped: bool

    @property
    def relays_unseen(self) -> bool:
        """Whether chunks of which no frame was handed over can be relayed without being taken here."""

    @property
    def client(self) -> Client:
        """The client as known so far."""

    @property
    def shown_client(self) -> Client:
        """The client as logs and operators may see it, redacted."""

    def learn(self, *, identity: str = "", upstream: str = "") -> None:
        """Update the client with what its login at the proxy has shown, as `Client.learned` does."""

    def covered_method(self, sender: Peer, command: Command) -> Command | None:
        """Return a command as logs may show it, without its body; `None` if it may not be shown at all."""

    # --- frames

    def ask_for_frames(self) -> None:
        """Subscribe the frame readers to the methods that the passage needs, and no others."""

    def take(self, sender: Peer, frames: list[Any], now: float) -> None:
        """Process a chunk that the sender's reader has just been fed, of which it has handed over `frames`.

        Raises `ProtocolError` at the first frame that is not allowed; those before it have passed by then.
        """

    def take_output(self, to: Peer) -> bytes | memoryview:
        """Take all bytes that are ready to be sent to a peer."""

    def take_passed(self, sender: Peer) -> Iterable[tuple[Note, Any]]:
        """Take the frames of `sender` to be shown to taps, each with its note."""

    def take_effects(self) -> InterceptorEffects | None:
        """Take the side effects that rules requested; `None` if there are none, and so no command waits."""

    def is_full(self, sender: Peer) -> bool:
        """Whether reading from a peer must stop, since too many bytes of its frames are queued here."""

    # --- the end of the connection

    @property
    def refusal(self) -> ProtocolError | None:
        """The error with which a rule closes the connection, once one does."""

    @property
    def fault(self) -> InterceptorFault | None:
        """The failure of a delayed or held command, once one fails."""

    @property
    def is_over(self) -> bool:
        """Whether the connection has to end, because of a refusal or a fault."""

    def end(self) -> None:
        """Release the state of a session that is over."""

    # --- delayed and held commands

    @property
    def waiting(self) -> Mapping[int, object]:
        """The delayed and held commands, by their numbers."""

    @property
    def next_deadline(self) -> float:
        """Time at which `tick` is due next, in seconds; infinity if no command waits."""

    @property
    def is_releasing(self) -> bool:
        """Whether `go_on_releasing` must be called again."""

    def tick(self, now: float) -> None:
        """Forward the delayed commands that are due."""

    def release(self, number: int, verdict: Verdict | None, now: float) -> None:
        """Forward a held command, with a replacement verdict if given. Raises `KeyError` if it is not held."""

    def release_all(self, now: float) -> None:
        """Start forwarding all delayed and held commands."""

    def go_on_releasing(self, now: float) -> None:
        """Continue the release begun by `release_all` for one turn."""

    # --- rules

    def start(self, now: float, *, is_open: bool) -> Iterable[Impairment]:
        """Return the impairments that connection rules demand for this connection."""

    def count_unseen(self) -> None:
        """Flush the hit counts of publishes that bypassed rule evaluation."""


class NothingWaits:
    """The rule-related part of a `Passage`, for one without rules."""

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
        """Return without effect: no command is delayed."""

    def release(self, number: int, verdict: Verdict | None, now: float) -> None:
        """Raise `KeyError`: no command is held."""
        raise KeyError(number)

    def release_all(self, now: float) -> None:
        """Return without effect: no command is delayed."""

    def go_on_releasing(self, now: float) -> None:
        """Return without effect: no command is delayed."""

    def start(self, now: float, *, is_open: bool) -> tuple[Impairment, ...]:
        return ()

    def count_unseen(self) -> None:
        """Count nothing, as the session has no rules."""

    def covered_method(self, sender: Peer, command: Command) -> Command | None:
        return command

"""What an interceptor needs of the rules of its session; `rules.engine.evaluator` has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.methods import Method
from amqproxy.amqp091.pass_cache import Credit
from amqproxy.amqp091.transitions import Peer
from amqproxy.rules.context import ChannelInfo, Client, CommandContext
from amqproxy.rules.verdict import Impairment, Stage, Verdict


class CachedPassing(Protocol):
    """What all methods come to that are, to the byte, like one that was evaluated: they pass, or go on as `method`.

    That is as long as there is something left of each of the `allowances`.
    """

    @property
    def method(self) -> Method | None:
        """What goes on in their place; None: they do."""

    @property
    def allowances(self) -> tuple[Credit, ...]:
        """Each of them takes one of each."""

    @property
    def if_plain(self) -> bool:
        """Is that so only where the header that follows has no further names (CC, BCC, reply-to)?"""

    def count(self, times: int = 1) -> None:
        """So many more have passed."""


class SessionRules(Protocol):
    """Decides about the commands of one session."""

    def stage(self, sender: Peer, frame: Frame, channel: ChannelInfo) -> Stage:
        """How much of the command that this method begins must come before it can be evaluated."""

    def passing(self, sender: Peer, frame: Frame, channel: ChannelInfo, now: float) -> CachedPassing | None:
        """What becomes of methods equal to this one without their being evaluated; None where they must be."""

    def evaluate(self, seen: CommandContext) -> Verdict:
        """What becomes of a command."""

    def wants(self, sender: Peer) -> bytes:
        """A 1 at the index of each method of `sender` that is to be staged."""

    def wants_all(self, sender: Peer) -> bool:
        """Are heartbeats to be staged too?"""

    def covered(self, sender: Peer, command: Command, body_limit: int) -> Command | None:
        """A command as it came, as taps may see it; None: not at all."""

    @property
    def shown_client(self) -> Client:
        """What is known of the client, as people may see it."""

    @property
    def may_act(self) -> bool:
        """Is there a rule that can hold for the client?"""

    @property
    def reads_unacked(self) -> bool:
        """Is `ChannelInfo.unacked` to be counted?"""

    @property
    def drops_confirms(self) -> bool:
        """May confirms of the broker's be kept from the client?"""

    def know(self, client: Client) -> None:
        """More is known of the client now."""

    def start(
        self, *, now: float, time: float, random: Callable[[], float], is_open: bool = False
    ) -> tuple[Impairment, ...]:
        """What is done to the bytes of the session from here on."""

    def note_answer(self, answer: Command) -> None:
        """Count an answer of the broker's that is not a frame."""

    def channel_closed(self, number: int) -> None:
        """A channel is no more."""

    def session_over(self) -> None:
        """Nothing more will come."""

    def moved(self, ruleset: Any) -> SessionRules:
        """The evaluator of the session by other rules, in whose stead this one is no longer asked."""

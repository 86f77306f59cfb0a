"""The interface of a session's rules to its interceptor, which `rules.engine.evaluator` implements."""

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
    """The cached outcome for methods identical to an evaluated one: forwarded unchanged, or replaced with `method`.

    It holds as long as none of the `allowances` is exhausted.
    """

    @property
    def method(self) -> Method | None:
        """The replacement method; `None` if they are forwarded unchanged."""

    @property
    def allowances(self) -> tuple[Credit, ...]:
        """Allowances of which each such method takes one unit."""

    @property
    def if_plain(self) -> bool:
        """Whether the outcome holds only if the following header has no further names (CC, BCC, reply-to)."""

    def count(self, times: int = 1) -> None:
        """Count `times` more methods that have passed this way."""


class SessionRules(Protocol):
    """The rules for the commands of one session."""

    def stage(self, sender: Peer, frame: Frame, channel: ChannelInfo) -> Stage:
        """Return how much of the command begun by a method is needed to evaluate it."""

    def passing(self, sender: Peer, frame: Frame, channel: ChannelInfo, now: float) -> CachedPassing | None:
        """Return the outcome for methods identical to this one without evaluation; `None` if they need it."""

    def evaluate(self, seen: CommandContext) -> Verdict:
        """Return the verdict on a command."""

    def wants(self, sender: Peer) -> bytes:
        """Return a 1 at the index of each method of `sender` that has to be staged."""

    def wants_all(self, sender: Peer) -> bool:
        """Whether heartbeats have to be staged, too."""

    def covered(self, sender: Peer, command: Command, body_limit: int) -> Command | None:
        """Return a received command as taps may see it, redacted; `None` if it may not be shown at all."""

    @property
    def shown_client(self) -> Client:
        """The client as people may see it, redacted."""

    @property
    def may_act(self) -> bool:
        """Whether any rule can match this client."""

    @property
    def reads_unacked(self) -> bool:
        """Whether `ChannelInfo.unacked` has to be counted."""

    @property
    def drops_confirms(self) -> bool:
        """Whether rules may withhold confirms of the broker from the client."""

    def know(self, client: Client) -> None:
        """Update the client."""

    def start(
        self, *, now: float, time: float, random: Callable[[], float], is_open: bool = False
    ) -> tuple[Impairment, ...]:
        """Return the impairments to apply to the session's bytes."""

    def note_answer(self, answer: Command) -> None:
        """Count an answer of the broker that is not a frame."""

    def channel_closed(self, number: int) -> None:
        """Release the state kept for a channel that has ended."""

    def session_over(self) -> None:
        """Release the state kept for the session, which is over."""

    def moved(self, ruleset: Any) -> SessionRules:
        """Return an evaluator for the reloaded rule set, replacing this one."""

"""The passage with rules between the legs of a session, for every protocol.

An `Interceptor` takes the frames of each peer, evaluates them, and returns the bytes to send to each. It shows each
leg's connection the frames that really pass on it, so that neither peer is sent a frame that it does not allow. It does
no input or output; the time is passed in. A dialect derives its own. For methods that are not described here, see
`Passage` in `session.passage`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, Protocol

from amqproxy.amqp091.commands import Command
from amqproxy.peer import CLIENT, Peer
from amqproxy.proxy.interception.action_executor import ActionExecutor, C
from amqproxy.proxy.interception.delayed_commands import D, DelayedCommands
from amqproxy.proxy.interception.effects import InterceptorEffects, InterceptorFault
from amqproxy.proxy.interception.evaluation import Evaluation
from amqproxy.proxy.interception.queued_bytes import QueuedBytes
from amqproxy.proxy.memory_budget import SESSION_MEMORY, MemoryBudget, MemoryShare
from amqproxy.rules.context import ChannelInfo, Client
from amqproxy.rules.engine.evaluator import RuleEvaluator
from amqproxy.rules.verdict import Close, Impairment, Verdict
from amqproxy.taps.note import NOTHING, Note

MAX_HELD = 16 * 1024 * 1024
"""Maximum of bytes queued in one session behind a delayed or held command; above this, or above the session's share of
all memory, their sender is not read from."""


class InterceptedLegs(Protocol):
    """Both legs of an interceptor: the output for each peer, and the frames for taps."""

    is_tapped: bool

    def take_output(self, to: Peer) -> bytes | memoryview:
        """Take all bytes that are ready to be sent to a peer."""

    def take_passed(self, sender: Peer) -> Iterable[tuple[Note, Any]]:
        """Take the frames of `sender` to be shown to taps, each group with its note."""


class Interceptor(ABC, Generic[C, D]):
    """The passage with rules: it takes frames, and decides what each peer is sent.

    `connections` are the legs', by the peer at their other end. Frames that its `gate` rejects are dropped. Kept bytes
    are charged to the session's `share`, and queued ones also to `loads`, by the peer that caused them.

    A dialect sets the objects for the state of the legs, the evaluation, the delayed commands, and the actions.
    """

    relays_unseen = False

    _legs: InterceptedLegs
    _evaluation: Evaluation
    _delayed: DelayedCommands[C, D]
    _executor: ActionExecutor[C, D, Any]

    def __init__(self, connections: Mapping[Peer, Any], share: MemoryShare | None) -> None:
        self.connections = connections
        self.share = share or MemoryShare(MemoryBudget(share_limit=SESSION_MEMORY))
        self.loads = {peer: QueuedBytes(self.share) for peer in Peer}
        self.gate: Callable[[Peer, Any], bool] | None = None

    # --- implemented by the dialect

    @abstractmethod
    def take(self, sender: Peer, frames: list[Any], now: float) -> None:
        """Process a chunk as `Passage.take` does; raises the protocol's own error."""

    @abstractmethod
    def ask_for_frames(self) -> None:
        """Subscribe the readers to the frames that rules, taps and the gate need, after any of these has changed."""

    @abstractmethod
    def _channel(self, number: int) -> C:
        """Return the channel of this number, creating it if all its frames have passed without one so far."""

    def _watch(self, channel: C) -> None:
        """Make the readers hand over all further frames of a channel."""

    def _close_connections(self) -> None:
        """Forward a connection.close that waited for all frames sent before it, once those have been forwarded."""

    def _leaves_room(self) -> bool:
        """Whether the queued bytes will shrink later, so that reading can resume then."""
        return True

    def count_unseen(self) -> None:
        """Flush the hit counts of publishes that bypassed rule evaluation."""

    def end(self) -> None:
        """Release all state: the session is over, or continues without rules."""
        self._delayed.end()
        self.gate = None
        self.share.clear()
        self.evaluator.session_over()

    # --- state

    @property
    def evaluator(self) -> RuleEvaluator:
        """The session's rules; call `ask_for_frames` after replacing them."""
        return self._evaluation.evaluator

    @evaluator.setter
    def evaluator(self, evaluator: RuleEvaluator) -> None:
        self._evaluation.evaluator = evaluator
        self._evaluation.refresh()

    @property
    def is_tapped(self) -> bool:
        """Whether taps are shown the passing frames; call `ask_for_frames` after setting it."""
        return self._legs.is_tapped

    @is_tapped.setter
    def is_tapped(self, is_tapped: bool) -> None:
        self._legs.is_tapped = is_tapped

    @property
    def client(self) -> Client:
        return self._evaluation.client

    @property
    def shown_client(self) -> Client:
        return self.evaluator.shown_client

    @property
    def now(self) -> float:
        """The time passed in last, in seconds."""
        return self._evaluation.now

    @property
    def random(self) -> Callable[[], float]:
        """The source of random numbers from 0 to 1 for rules."""
        return self._evaluation.random

    @property
    def time(self) -> Callable[[], float]:
        """The time of day for rules, in seconds since 1970."""
        return self._evaluation.time

    def learn(self, *, identity: str = "", upstream: str = "") -> None:
        if self._evaluation.know(self.client.learned(identity=identity, upstream=upstream)):
            self.ask_for_frames()

    def facts(self, number: int) -> ChannelInfo:
        """Return the facts about a channel that rules may use."""
        return self._evaluation.facts(number)

    def covered_method(self, sender: Peer, command: Command) -> Command | None:
        return self.evaluator.covered(sender, command, 0)

    def start(self, now: float, *, is_open: bool) -> tuple[Impairment, ...]:
        return self.evaluator.start(now=now, time=self.time(), random=self.random, is_open=is_open)

    # --- input and output

    def take_output(self, to: Peer) -> bytes | memoryview:
        return self._legs.take_output(to)

    def take_passed(self, sender: Peer) -> Iterable[tuple[Note, Any]]:
        return self._legs.take_passed(sender)

    def take_effects(self) -> InterceptorEffects:
        return self._executor.take_effects()

    def is_full(self, sender: Peer) -> bool:
        """Whether reading from a peer must stop, since too many bytes of its frames are queued here."""
        size = self.loads[sender].size
        return (size > MAX_HELD or (size > 0 and self.share.is_over)) and not self.is_over and self._leaves_room()

    @property
    def refusal(self) -> Any:
        return self._executor.refusal

    @property
    def fault(self) -> InterceptorFault | None:
        return self._executor.fault

    @property
    def is_over(self) -> bool:
        return self._executor.is_over

    # --- operator actions

    def close_channel(self, number: int, close: Close, now: float) -> None:
        """Close a channel on both legs, once no content is in progress on it."""
        self._begin_turn(now)
        channel = self._channel(number)
        self._executor.do(channel, channel.close(None, close, NOTHING))
        self._end_turn()

    def pause_channel(self, number: int, now: float) -> None:
        """Queue the client's further commands on a channel, in order; reading stops once it `is_full`."""
        self._begin_turn(now)
        channel = self._channel(number)
        self._watch(channel)
        self._delayed.pause(channel, channel.directions[CLIENT])

    def resume_channel(self, number: int, now: float) -> None:
        """End the pause of a channel, and forward the first turn of its queue."""
        self._begin_turn(now)
        for channel in list(self._delayed.paused.values()):
            if channel.number == number:
                self._delayed.end_pauses(channel)
        self._end_turn()

    @property
    def paused_channels(self) -> list[int]:
        """Numbers of the paused channels."""
        return [channel.number for channel in self._delayed.paused.values()]

    # --- delayed and held commands

    @property
    def waiting(self) -> Mapping[int, tuple[C, D]]:
        return self._delayed.waiting

    @property
    def next_deadline(self) -> float:
        return math.inf if self.is_over else self._delayed.next_deadline

    @property
    def is_releasing(self) -> bool:
        return self._delayed.is_releasing and not self.is_over

    def holds_up(self, sender: Peer) -> bool:
        """Whether any frame of the sender is queued, on any channel."""
        return self._delayed.holds_up(sender)

    def tick(self, now: float) -> None:
        """Process queues and the delayed commands that are due, up to the limit of one turn."""
        self._begin_turn(now)
        self._executor.go_on(self._delayed.tick(now))
        self._end_turn()

    def release(self, number: int, verdict: Verdict | None, now: float) -> None:
        self._begin_turn(now)
        self._executor.go_on(self._delayed.release(number, verdict))
        self._end_turn()

    def release_all(self, now: float) -> None:
        """Start forwarding all delayed and held commands; held ones are treated as timed out.

        While it `is_releasing`, `go_on_releasing` continues.
        """
        self._delayed.release_all()
        self.go_on_releasing(now)

    def go_on_releasing(self, now: float) -> None:
        self._begin_turn(now)
        self._executor.go_on(self._delayed.go_on_releasing())
        self._end_turn()

    def _begin_turn(self, now: float) -> None:
        self._evaluation.begin_turn(now)
        self._delayed.begin_turn(now)

    def _end_turn(self) -> None:
        """Finish a turn: process resumed queues, and forward a connection.close once no command waits before it."""
        self._executor.go_on(self._delayed.go_on_resuming())
        self._close_connections()

"""A passage with rules: what stands between the legs of a session, in every protocol.

An `Interceptor` takes the frames of each peer, has them evaluated, and returns what is to be sent to either. It shows
each leg's connection what really passes on it, so that neither peer gets what it may not. It does no input or output;
the time is passed in. A dialect derives its own.
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
from amqproxy.proxy.interception.session_rules import SessionRules
from amqproxy.proxy.memory_budget import SESSION_MEMORY, MemoryBudget, MemoryShare
from amqproxy.rules.context import ChannelInfo, Client
from amqproxy.rules.verdict import Close, Impairment, Verdict
from amqproxy.taps.note import NOTHING, Note

MAX_HELD = 16 * 1024 * 1024
"""Bytes that may wait in one session behind what is held; above, or above its share of all memory, nothing more is
read from their sender."""


class InterceptedLegs(Protocol):
    """Both legs, as an interceptor has them: what is to be sent to each peer, and shown to taps."""

    is_tapped: bool

    def take_output(self, to: Peer) -> bytes | memoryview:
        """Return all that is to be sent to a peer now."""

    def take_passed(self, sender: Peer) -> Iterable[tuple[Note, Any]]:
        """Return what taps are to see of `sender`, with what they are to know of it."""


class Interceptor(ABC, Generic[C, D]):
    """What stands between the legs of a session with rules: it takes frames, and decides what each peer is sent.

    `connections` are the legs', by the peer at their other end. What its `gate` does not let by goes no further. What
    is kept here counts for the session's `share`, and of it what waits for `loads`, by the peer that caused it.

    A dialect sets what has the state of the legs, the evaluation of commands, what waits, and what carries actions out.
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

    # --- of the dialect

    @abstractmethod
    def take(self, sender: Peer, frames: list[Any], now: float) -> None:
        """Take what the sender's reader has just been fed, `frames` of which it has handed over.

        The protocol's error at the first that may not come; those before it have crossed then.
        """

    @abstractmethod
    def ask_for_frames(self) -> None:
        """Subscribe the readers to the frames that rules, taps and the gate need, after any of these has changed."""

    @abstractmethod
    def _channel(self, number: int) -> C:
        """Return the channel of this number, which may have passed without one so far."""

    def _watch(self, channel: C) -> None:
        """Have all frames of a channel handed over from here on."""

    def _close_connections(self) -> None:
        """Send on a connection.close that waited for everything sent before it, once that has gone on."""

    def _leaves_room(self) -> bool:
        """Whether what is kept will be sent on later, so that there is room for more then."""
        return True

    def count_unseen(self) -> None:
        """Have the rules count what has passed unseen so far."""

    def end(self) -> None:
        """Let go of everything: the session is over, or goes on without rules."""
        self._delayed.end()
        self.gate = None
        self.share.clear()
        self.evaluator.session_over()

    # --- what is known

    @property
    def evaluator(self) -> SessionRules:
        """The rules of the session; after another is set, `ask_for_frames` is to be called."""
        return self._evaluation.evaluator

    @evaluator.setter
    def evaluator(self, evaluator: SessionRules) -> None:
        self._evaluation.evaluator = evaluator
        self._evaluation.refresh()

    @property
    def is_tapped(self) -> bool:
        """Whether taps are shown what passes; after it is set, `ask_for_frames` is to be called."""
        return self._legs.is_tapped

    @is_tapped.setter
    def is_tapped(self, is_tapped: bool) -> None:
        self._legs.is_tapped = is_tapped

    @property
    def client(self) -> Client:
        """The client, as far as it is known."""
        return self._evaluation.client

    @property
    def shown_client(self) -> Client:
        """The client, as logs and operators may see it."""
        return self.evaluator.shown_client

    @property
    def now(self) -> float:
        """The time that was passed in last, in seconds."""
        return self._evaluation.now

    @property
    def random(self) -> Callable[[], float]:
        """The source of random numbers from 0 to 1 for rules."""
        return self._evaluation.random

    @property
    def time(self) -> Callable[[], float]:
        """The time of day for rules, in seconds since 1970."""
        return self._evaluation.time

    def facts(self, number: int) -> ChannelInfo:
        """Return the facts about a channel that rules may ask for."""
        return self._evaluation.facts(number)

    def covered_method(self, sender: Peer, command: Command) -> Command | None:
        """Return a command as logs may show it, without its body; None where they may not."""
        return self.evaluator.covered(sender, command, 0)

    def start(self, now: float, *, is_open: bool) -> tuple[Impairment, ...]:
        """Return what rules about connections as such want to be done to the bytes of this one."""
        return self.evaluator.start(now=now, time=self.time(), random=self.random, is_open=is_open)

    # --- in and out

    def take_output(self, to: Peer) -> bytes | memoryview:
        """Return all that is to be sent to a peer now."""
        return self._legs.take_output(to)

    def take_passed(self, sender: Peer) -> Iterable[tuple[Note, Any]]:
        """Return what taps are to see of `sender`, with what they are to know of it."""
        return self._legs.take_passed(sender)

    def take_effects(self) -> InterceptorEffects:
        """Return what rules want besides, since it was taken last."""
        return self._executor.take_effects()

    def is_full(self, sender: Peer) -> bool:
        """Whether so much waits of what a peer has sent that nothing more is to be read from it for now."""
        size = self.loads[sender].size
        return (size > MAX_HELD or (size > 0 and self.share.is_over)) and self._leaves_room()

    @property
    def refusal(self) -> Any:
        """The error for which the connection has to end, once a rule wants that."""
        return self._executor.refusal

    @property
    def fault(self) -> InterceptorFault | None:
        """Why what has waited cannot go on, once that is so."""
        return self._executor.fault

    @property
    def is_over(self) -> bool:
        """Whether the connection has to end, so that nothing more goes on."""
        return self._executor.is_over

    # --- what an operator wants

    def close_channel(self, number: int, close: Close, now: float) -> None:
        """Close a channel on both legs, as soon as no content is under way on it."""
        self._begin_turn(now)
        channel = self._channel(number)
        self._executor.do(channel, channel.close(None, close, NOTHING))
        self._end_turn()

    def pause_channel(self, number: int, now: float) -> None:
        """Queue the client's commands on a channel from the next one on, in order; too many wait as `is_full`."""
        self._begin_turn(now)
        channel = self._channel(number)
        self._watch(channel)
        self._delayed.pause(channel, channel.directions[CLIENT])

    def resume_channel(self, number: int, now: float) -> None:
        """Send on what the client has sent on a paused channel: the first turn of it."""
        self._begin_turn(now)
        for channel in list(self._delayed.paused.values()):
            if channel.number == number:
                self._delayed.end_pauses(channel)
        self._end_turn()

    @property
    def paused_channels(self) -> list[int]:
        """The numbers of the channels that are paused."""
        return [channel.number for channel in self._delayed.paused.values()]

    # --- what waits

    @property
    def waiting(self) -> Mapping[int, tuple[C, D]]:
        """The commands that wait, by a number of each."""
        return self._delayed.waiting

    @property
    def next_deadline(self) -> float:
        """When `tick` will next have something to do, in seconds."""
        return math.inf if self.is_over else self._delayed.next_deadline

    @property
    def is_releasing(self) -> bool:
        """Whether `go_on_releasing` has something left to do."""
        return self._delayed.is_releasing and not self.is_over

    def holds_up(self, sender: Peer) -> bool:
        """Whether anything of the sender's waits, on any channel."""
        return self._delayed.holds_up(sender)

    def tick(self, now: float) -> None:
        """Send on what has waited long enough, or as much of it as goes on in one turn."""
        self._begin_turn(now)
        self._executor.go_on(self._delayed.tick(now))
        self._end_turn()

    def release(self, number: int, verdict: Verdict | None, now: float) -> None:
        """Send on a held command, with another verdict if one is given. `KeyError` when it is not held."""
        self._begin_turn(now)
        self._executor.go_on(self._delayed.release(number, verdict))
        self._end_turn()

    def release_all(self, now: float) -> None:
        """Begin to send on everything that waits now; what is held, as if its timeout had passed.

        While it `is_releasing`, `go_on_releasing` does what is left of it.
        """
        self._delayed.release_all()
        self.go_on_releasing(now)

    def go_on_releasing(self, now: float) -> None:
        """Continue what `release_all` has begun, for one turn."""
        self._begin_turn(now)
        self._executor.go_on(self._delayed.go_on_releasing())
        self._end_turn()

    def _begin_turn(self, now: float) -> None:
        self._evaluation.begin_turn(now)
        self._delayed.begin_turn(now)

    def _end_turn(self) -> None:
        """Do what is left of a turn: resume queues, and send a connection.close that nothing holds up any more."""
        self._executor.go_on(self._delayed.go_on_resuming())
        self._close_connections()

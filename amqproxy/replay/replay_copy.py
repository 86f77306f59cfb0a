"""One copy of a capture that is played: its steps in order, its connections, and when each step is due."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum

import msgspec

from amqproxy.peer import CLIENT, SERVER
from amqproxy.replay.awaited import TIMEOUT
from amqproxy.replay.broker_link import NEVER, Life, ReplayedStream, Watch
from amqproxy.replay.deliveries import DeliveryBoard
from amqproxy.replay.dialects import dialect_of
from amqproxy.replay.names import SharedNames
from amqproxy.replay.player import NotReadYet, Player
from amqproxy.replay.result import ReplayResult
from amqproxy.replay.steps import ConnectionEnded, SentStep, Step
from amqproxy.replay.target import Target

LOOK_AHEAD = 4096
"""Steps of a copy that are read ahead."""

LOOK_AHEAD_BYTES = 16 * 1024 * 1024
"""Approximate bytes of the steps that are read ahead: the last batch may exceed it."""

AT_ONCE = float("inf")


class Order(StrEnum):
    """The recorded steps that a command waits for."""

    CAPTURE = "capture"
    """All earlier steps of the capture, on any connection: so connections that depend on each other keep their order at
    any speed."""
    CONNECTION = "connection"
    """Earlier steps of the same connection."""


class PlaySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a replay: `speed` is a factor, `AT_ONCE` for no delays; an answer may take `timeout` seconds."""

    target: Target
    speed: float = 1.0
    order: Order = Order.CAPTURE
    timeout: float = TIMEOUT


def size_of(step: Step) -> int:
    """Return the bytes that a step holds."""
    return step.size if isinstance(step, SentStep) else len(getattr(step, "data", b""))


class Lane:
    """Steps that are played in sequence, each with its player."""

    def __init__(self) -> None:
        self.steps: deque[tuple[Step, Player]] = deque()
        self.is_whole = False
        self.is_full = False

    def of_broker(self, stream: int) -> Iterator[Step]:
        for step, _ in self.steps:
            if step.stream == stream and (isinstance(step, ConnectionEnded) or step.sender is SERVER):
                yield step
                if isinstance(step, ConnectionEnded):
                    return
        if not self.is_whole and not self.is_full:
            raise NotReadYet


class ReplayCopy:
    """One copy of a capture. Its first step is due at `begin`; `wake` is called with players whose socket must act."""

    def __init__(
        self,
        settings: PlaySettings,
        result: ReplayResult,
        begin: float,
        suffix: str = "",
        *,
        wake: Callable[[Player], None] = lambda player: None,
        watch: Watch | None = None,
    ) -> None:
        self.players: dict[int, Player] = {}
        self._settings = settings
        self._result = result
        self._begin = begin
        self._first_ns: int | None = None
        self._names = SharedNames(suffix)
        self._board = DeliveryBoard()
        self._wake = wake
        self._watch = watch
        self._lanes: dict[int, Lane] = {}
        self._is_whole = False
        self._backlog = 0
        self._backlog_bytes = 0
        self._over: set[int] = set()
        """Connections whose recorded steps have all been played."""
        self._now = begin

    @property
    def is_hungry(self) -> bool:
        """Whether there is room for more steps."""
        return not self._is_whole and self._backlog < LOOK_AHEAD and self._backlog_bytes < LOOK_AHEAD_BYTES

    @property
    def is_done(self) -> bool:
        return self._is_whole and not self._backlog

    def extend(self, steps: Iterable[Step]) -> None:
        """Add the next steps."""
        for step in steps:
            if self._first_ns is None:
                self._first_ns = step.ts_ns
            player = self.players.get(step.stream)
            if player is None:
                shared = self._settings.target, self._names, self._board, self._result, self._watch
                replayed = ReplayedStream(step.stream, step.connection, *shared)
                dialect, timeout = dialect_of(step), self._settings.timeout
                player = self.players[step.stream] = dialect.player(replayed, timeout=timeout, wake=self._wake)
            self._lane(step.stream).steps.append((step, player))
            self._backlog += 1
            self._backlog_bytes += size_of(step)
        for lane in self._lanes.values():
            lane.is_full = not self.is_hungry

    def end(self) -> None:
        """Note that the capture has no more steps."""
        self._is_whole = True
        for lane in self._lanes.values():
            lane.is_whole = True

    def advance(self, now: float, player: Player | None = None) -> float:
        """Play all steps that can be played; return when to call again, unless something is received first.

        With a `player`, only that one has received something.
        """
        self._now = now
        if player is not None and self._settings.order is Order.CONNECTION:
            lane = self._lanes.get(player.stream)
            return NEVER if lane is None else self._advance(lane, now)
        return min([self._advance(lane, now) for lane in list(self._lanes.values())], default=NEVER)

    def finish(self, now: float) -> None:
        """Close all open connections at the end of the recording."""
        for player in self.players.values():
            player.finish(now)

    def report_rest(self) -> None:
        """Report live answers and deliveries that the recording does not have."""
        for player in self.players.values():
            player.report_rest()
        for delivery in (*self._board.given_up, *self._board.unmatched()):
            holder = delivery.holder
            if not delivery.is_kept and isinstance(holder, Player):
                holder.report_extra_delivery(delivery)

    def _lane(self, stream: int) -> Lane:
        key = stream if self._settings.order is Order.CONNECTION else -1
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane()
            lane.is_whole = self._is_whole
        return lane

    def _advance(self, lane: Lane, now: float) -> float:
        steps = lane.steps
        while steps:
            step, player = steps[0]
            due = self._due(step)
            is_due_later = due > now and player.life is not Life.ENDED  # an ended player takes its steps without delay
            if is_due_later and (isinstance(step, ConnectionEnded) or getattr(step, "sender", None) is CLIENT):
                return due
            until = player.play(step, now, due, lane)
            if until is not None:
                return until
            steps.popleft()
            self._backlog -= 1
            self._backlog_bytes -= size_of(step)
            if isinstance(step, ConnectionEnded):
                self._over.add(step.stream)
                if not player.has_socket:
                    self.release(player)
        return NEVER

    def release(self, player: Player) -> None:
        """Forget a player without a socket once its recording is over, after reporting what it has left."""
        if player.stream in self._over and self.players.get(player.stream) is player:
            self._over.discard(player.stream)
            del self.players[player.stream]
            self._lanes.pop(player.stream, None)
            player.finish(self._now)
            player.report_rest()

    def _due(self, step: Step) -> float:
        if self._settings.speed == AT_ONCE or self._first_ns is None:
            return self._begin
        return self._begin + (step.ts_ns - self._first_ns) / 1e9 / self._settings.speed

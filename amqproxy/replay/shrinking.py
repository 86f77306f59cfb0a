"""The smallest part of a capture of which an expression is still true when it is played."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence

import msgspec

from amqproxy.replay.capture_part import CaptureInParts, CapturePart
from amqproxy.replay.delta_debugging import OutOfTime, least_part
from amqproxy.replay.outcome import OutcomeFilter, ReplayOutcome
from amqproxy.replay.steps import SentStep, Step

Play = Callable[[Iterable[Step], int], Awaitable[ReplayOutcome]]
"""Plays steps in isolation from other tries; the number is that of the try."""


class NotTrue(Exception):
    """Raised if the expression is not even true of the whole capture."""


class Shrunk(msgspec.Struct, frozen=True, kw_only=True):
    """The smallest part found, and how: connections and commands before and after, and the number of replays.

    `outcome` is that of its last replay. `is_least` is whether the method can leave out nothing more.
    """

    connections_before: int
    connections: int
    commands_before: int
    commands: int
    replays: int
    is_least: bool
    outcome: ReplayOutcome


class Shrinker:
    """Search for the smallest part: leaves out connections, channels, then commands while the expression stays true."""

    def __init__(
        self, steps: Sequence[Step], until: OutcomeFilter, play: Play, has_time: Callable[[], bool] = lambda: True
    ) -> None:
        self._capture = CaptureInParts(steps)
        self._until = until
        self._play = play
        self._has_time = has_time
        self._replays = 0
        self._known: dict[CapturePart, bool] = {}
        self._outcome: ReplayOutcome | None = None

    async def shrink(self, on_progress: Callable[[int, int], None] = lambda commands, replays: None) -> Shrunk:
        """Find the smallest part. `NotTrue` if the expression is not true of the whole capture."""
        whole = part = self._capture.whole
        if not await self._is_true(whole):
            raise NotTrue
        is_least = True
        try:
            while True:
                before = part
                part = await self._without_streams(part)
                part = await self._without_channels(part)
                on_progress(len(self._capture.commands_of(part)), self._replays)
                part = await self._without_commands(part)
                on_progress(len(self._capture.commands_of(part)), self._replays)
                if part == before:
                    break
                if not self._has_time():
                    raise OutOfTime
        except OutOfTime:
            is_least = False
        assert self._outcome is not None
        return Shrunk(
            connections_before=len(whole.streams),
            connections=len(part.streams),
            commands_before=len(whole.commands),
            commands=len(self._capture.commands_of(part)),
            replays=self._replays,
            is_least=is_least and self._has_time(),
            outcome=self._outcome,
        )

    async def _without_streams(self, part: CapturePart) -> CapturePart:
        async def is_true(streams: Sequence[int]) -> bool:
            return await self._is_true(msgspec.structs.replace(part, streams=frozenset(streams)))

        left = await least_part(sorted(part.streams), is_true)
        return msgspec.structs.replace(part, streams=frozenset(left))

    async def _without_channels(self, part: CapturePart) -> CapturePart:
        async def is_true(channels: Sequence[tuple[int, int]]) -> bool:
            return await self._is_true(msgspec.structs.replace(part, channels=frozenset(channels)))

        left = await least_part(self._capture.channels_of(part), is_true)
        return msgspec.structs.replace(part, channels=frozenset(left))

    async def _without_commands(self, part: CapturePart) -> CapturePart:
        async def is_true(commands: Sequence[int]) -> bool:
            return await self._is_true(msgspec.structs.replace(part, commands=frozenset(commands)))

        left = await least_part(self._capture.commands_of(part), is_true)
        return msgspec.structs.replace(part, commands=frozenset(left))

    async def _is_true(self, part: CapturePart) -> bool:
        """Play this part; return whether the expression is true of the outcome. `OutOfTime` if no time is left."""
        known = self._known.get(part)
        if known is not None:
            return known
        if self._replays and not self._has_time():
            raise OutOfTime
        self._replays += 1
        outcome = await self._play(self._capture.steps_of(part), self._replays)
        is_true = self._known[part] = self._until.holds(outcome)
        if is_true:
            self._outcome = outcome
        return is_true


def opened_vhosts(steps: Iterable[Step]) -> set[str]:
    """Return the names of the virtual hosts that the recorded broker opened, which a new broker needs for the steps."""
    asked: dict[int, str] = {}
    opened: set[str] = set()
    for step in steps:
        method = step.method if isinstance(step, SentStep) else None
        if method is None:
            continue
        if method.name == "connection.open":
            asked[step.stream] = method.virtual_host or ""
        elif method.name == "connection.open-ok" and asked.get(step.stream):
            opened.add(asked[step.stream])
    return opened

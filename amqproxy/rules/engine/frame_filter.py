"""Filter for the frames of one 0-9-1 connection, by the commands that they carry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from amqproxy.amqp091.commands import MAX_BODY, MAX_FRAMES, Command
from amqproxy.amqp091.frame import HEADER, HEARTBEAT, METHOD, Frame
from amqproxy.amqp091.methods import BY_INDEX
from amqproxy.amqp091.transitions import Peer
from amqproxy.rules.context import Client
from amqproxy.rules.engine.command_filter import CommandFilter
from amqproxy.rules.matching.filters import Filter
from amqproxy.rules.verdict import Stage

FRAME_COST = 256
"""Approximate memory cost of a held frame besides its payload, in bytes."""


class MemoryRoom(Protocol):
    """Memory budget for the frames of incomplete messages."""

    def has_room(self, size: int) -> bool: ...

    def add(self, size: int) -> None: ...

    def remove(self, size: int) -> None: ...


class _PartialMessage:
    """An incomplete message: its frames, their memory cost, and the number of body bytes that are missing."""

    __slots__ = ("cost", "frames", "remaining")

    def __init__(self, method: Frame) -> None:
        self.frames = [method]
        self.cost = method.length() + FRAME_COST
        self.remaining = -1

    def add(self, frame: Frame) -> None:
        self.frames.append(frame)
        self.cost += frame.length() + FRAME_COST
        if frame.kind == HEADER:
            self.remaining = frame.body_size
        else:
            self.remaining -= frame.size


class FrameFilter:
    """Filter for the commands of both peers, from the beginning of a connection.

    A message is passed once the part that the filter reads is complete; the order within a channel is kept. If there is
    no `room` to hold it, it is passed unfiltered, so that it is seen.
    """

    def __init__(
        self, chosen: Filter, client: Client, room: MemoryRoom | None = None, body_limit: int = MAX_BODY
    ) -> None:
        self._commands = CommandFilter(chosen, client)
        self._stage = chosen.condition.stage
        self._room = room
        self._body_limit = body_limit
        self._held: dict[tuple[Peer, int], _PartialMessage] = {}
        self._tags: tuple[str, ...] = ()
        self._passes: dict[tuple[Peer, int], bool] = {}

    def sift(self, sender: Peer, frames: Sequence[Frame], time: float, tags: tuple[str, ...] = ()) -> list[Frame]:
        """Return the frames that pass, from these and those held earlier.

        `time` and `tags` are as in `CommandContext`; all frames of a command have the same tags.
        """
        self._tags = tags
        passed: list[Frame] = []
        for frame in frames:
            passed += self._sift(sender, frame, time)
        return passed

    def passing(
        self,
        sender: Peer,
        frames: Sequence[Frame],
        command_ids: Sequence[int | None],
        time: float,
        tags: tuple[str, ...] = (),
        keeps: Callable[[Frame], bool] | None = None,
    ) -> tuple[Sequence[Frame], Sequence[int | None]]:
        """Return the frames that pass as from `sift`, and no command ids; see `ConnectionFilter`."""
        if keeps is None:
            return self.sift(sender, frames, time, tags), ()
        passed: list[Frame] = []
        for frame in frames:
            passed += [frame] if keeps(frame) else self.sift(sender, [frame], time, tags)
        return passed, ()

    def _sift(self, sender: Peer, frame: Frame, time: float) -> list[Frame]:
        place = (sender, frame.channel)
        if frame.kind == METHOD:
            self._commands.learn(sender, frame)
            carries_content = BY_INDEX[frame.index].carries_content
            self._take(place)
            if carries_content and self._stage > Stage.METHOD and self._hold(place, _PartialMessage(frame)):
                return []
            passes = carries_content and self._stage > Stage.METHOD  # passed for lack of room
            self._passes[place] = passes = passes or self._holds(sender, [frame], time)
            return [frame] if passes else []
        if frame.kind == HEARTBEAT:
            return [frame] if self._holds(sender, [frame], time) else []
        held = self._take(place)
        if held is None:
            return [frame] if self._passes.get(place) else []
        held.add(frame)
        is_too_much = frame.kind == HEADER and frame.body_size > MAX_BODY and self._stage is Stage.BODY
        is_too_much = is_too_much or len(held.frames) > MAX_FRAMES
        if self._stage is Stage.HEADER or held.remaining <= 0:
            passes = self._holds(sender, held.frames, time)
        elif is_too_much or not self._hold(place, held):
            passes = True
        else:
            return []
        self._passes[place] = passes
        return held.frames if passes else []

    def _hold(self, place: tuple[Peer, int], held: _PartialMessage) -> bool:
        """Hold a message until more of it is received; `False` if there is no room for it."""
        if self._room is not None:
            if not self._room.has_room(held.cost):
                return False
            self._room.add(held.cost)
        self._held[place] = held
        return True

    def _take(self, place: tuple[Peer, int]) -> _PartialMessage | None:
        """Remove and return the incomplete message of a channel and sender."""
        held = self._held.pop(place, None)
        if held is not None and self._room is not None:
            self._room.remove(held.cost)
        return held

    def _holds(self, sender: Peer, frames: list[Frame], time: float) -> bool:
        """Whether the filter holds; also true if it fails or the command is malformed, so that it is seen."""
        try:
            return self._commands.holds(sender, Command.received(frames), time, self._tags, self._body_limit)
        except TypeError:
            return False  # a heartbeat has none of the attributes

"""The ids of the commands that one peer sends, as they follow from the frames alone. Section 3.2."""

from __future__ import annotations

from amqproxy.amqp010.controls import SessionCommandPoint
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import COMMAND, COMMAND_TRACK, Frame
from amqproxy.amqp010.methods import BY_NAME
from amqproxy.amqp010.sequence import BITS, add

_COMMAND_POINT = BY_NAME["session.command-point"].index
_UNNUMBERED = frozenset(BY_NAME[f"session.{name}"].index for name in ("attach", "attached", "detached", "gap"))


class CommandNumbering:
    """One direction of a connection: give it each frame, in order.

    Ids are not known before a session.command-point on their channel.
    """

    __slots__ = ("_current", "_next")

    def __init__(self) -> None:
        self._next: dict[int, int] = {}
        self._current: dict[int, int | None] = {}

    def number(self, frame: Frame) -> int | None:
        """The id of the command that a frame is of; None of a control, and where it is not known."""
        channel = frame.channel
        if frame.kind > COMMAND:
            return self._current.pop(channel, None) if frame.ends_assembly else self._current.get(channel)
        if frame.track != COMMAND_TRACK:
            if frame.index == _COMMAND_POINT:
                self._point(channel, frame)
            elif frame.index in _UNNUMBERED:
                self._next.pop(channel, None)
            return None
        if frame.begins_assembly and frame.kind == COMMAND:
            number = self._next.get(channel)
            if number is not None:
                self._next[channel] = add(number, 1)
            self._current[channel] = number
        return self._current.pop(channel, None) if frame.ends_assembly else self._current.get(channel)

    def following(self, channel: int) -> int | None:
        """The id of the command that begins next on a channel, where it is known."""
        return self._next.get(channel)

    def current(self, channel: int) -> int | None:
        """The id of the command that is under way on a channel, where it is known."""
        return self._current.get(channel)

    def copy(self) -> CommandNumbering:
        """Another one, that goes on from here by itself."""
        other = CommandNumbering()
        other._next, other._current = self._next.copy(), self._current.copy()
        return other

    def skip(self, channel: int, commands: int, *, is_under_way: bool) -> None:
        """So many commands have begun on a channel whose frames came elsewhere; is the last one still under way?"""
        number = self._next.get(channel)
        if commands:
            if number is not None:
                number = (number + commands) % (1 << BITS)
                self._next[channel] = number
            self._current[channel] = None if number is None else (number - 1) % (1 << BITS)
        if not is_under_way:
            self._current.pop(channel, None)

    def forget(self) -> None:
        """Frames are missing: no id is known from here on."""
        self._next.clear()
        self._current.clear()

    def _point(self, channel: int, frame: Frame) -> None:
        try:
            point: SessionCommandPoint = frame.method
        except (ProtocolError, TypeError):
            self._next.pop(channel, None)
            return
        self._next[channel] = point.command_id or 0

"""The ids of the commands that one peer sends, as they follow from the frames alone. Section 3.2.

This module may be compiled.
"""

from __future__ import annotations

from collections.abc import Sequence

from amqproxy.amqp010.controls import SessionCommandPoint
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import COMMAND, COMMAND_TRACK, Frame
from amqproxy.amqp010.methods import BY_INDEX

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy import _cython as cython

_COMMAND = cython.declare(cython.int, COMMAND)
_COMMAND_TRACK = cython.declare(cython.int, COMMAND_TRACK)
_UNNUMBERED = ("session.attach", "session.attached", "session.detached", "session.gap")
_POINT, _END = 1, 2
_IS_POINT = cython.declare(cython.int, _POINT)
_EFFECTS = cython.declare(
    bytes,
    bytes([_POINT if cls.name == "session.command-point" else _END * (cls.name in _UNNUMBERED) for cls in BY_INDEX]),
)
"""What each control does: set the next id, make it unknown, or nothing."""


@cython.final
@cython.no_gc
@cython.cclass
class ChannelNumbers:
    """On one channel: the `next` id, -1 if it is not known, and that of the command under way, if its id is known."""

    def __init__(self, number: int) -> None:
        self.next = number
        self.current: int | None = None


@cython.final
@cython.cclass
class CommandNumbering:
    """One direction of a connection: give it each frame, in order.

    Ids are not known before a session.command-point on their channel.
    """

    def __init__(self) -> None:
        self._channels: dict[int, ChannelNumbers] = {}
        self._recent: ChannelNumbers | None = None
        self._recent_channel = -1

    def numbers(self, frames: Sequence[Frame]) -> list[int | None]:
        """The id of the command that each frame is of."""
        frame: Frame
        listed: list[Frame] = frames if isinstance(frames, list) else list(frames)
        found: list[int | None] = []
        for frame in listed:
            found.append(self.number(frame))
        return found

    def number(self, frame: Frame) -> int | None:
        """The id of the command that a frame is of; None of a control, and where it is not known."""
        channel: cython.int = frame.channel
        kind: cython.int = frame.kind
        numbers: ChannelNumbers | None
        if kind <= _COMMAND and frame.track != _COMMAND_TRACK:
            self._apply(channel, frame)
            return None
        if channel == self._recent_channel:
            numbers = self._recent
        else:
            numbers = self._recent = self._channels.get(channel)
            self._recent_channel = channel
        if numbers is None:
            return None
        if kind == _COMMAND and frame.flags & 10 == 10:
            if numbers.next < 0:
                numbers.current = None
            else:
                numbers.current = numbers.next
                numbers.next = (numbers.next + 1) & 0xFFFF_FFFF
        number: int | None = numbers.current
        if frame.flags & 5 == 5:
            numbers.current = None
            if numbers.next < 0:
                self._drop(channel)
        return number

    def following(self, channel: int) -> int | None:
        """The id of the command that begins next on a channel, where it is known."""
        numbers: ChannelNumbers | None = self._channels.get(channel)
        return None if numbers is None or numbers.next < 0 else numbers.next

    def current(self, channel: int) -> int | None:
        """The id of the command that is under way on a channel, where it is known."""
        numbers: ChannelNumbers | None = self._channels.get(channel)
        return None if numbers is None else numbers.current

    def copy(self) -> CommandNumbering:
        """Another one, that goes on from here by itself."""
        other: CommandNumbering = CommandNumbering()
        numbers: ChannelNumbers
        copied: ChannelNumbers
        for channel, numbers in self._channels.items():
            copied = other._channels[channel] = ChannelNumbers(numbers.next)
            copied.current = numbers.current
        return other

    def skip(self, channel: int, commands: int, *, is_under_way: bool) -> None:
        """So many commands have begun on a channel whose frames came elsewhere; is the last one still under way?"""
        numbers: ChannelNumbers | None = self._channels.get(channel)
        if numbers is None:
            return
        if commands:
            numbers.current = None
            if numbers.next >= 0:
                numbers.next = (numbers.next + commands) & 0xFFFF_FFFF
                numbers.current = (numbers.next - 1) & 0xFFFF_FFFF
        if not is_under_way:
            numbers.current = None
            if numbers.next < 0:
                self._drop(channel)

    def forget(self) -> None:
        """Frames are missing: no id is known from here on."""
        self._channels.clear()
        self._recent_channel = -1

    @cython.cfunc
    def _apply(self, channel: cython.int, frame: Frame) -> object:
        """Take a control."""
        effects: cython.p_const_uchar = _EFFECTS
        index: cython.int = frame.index
        numbers: ChannelNumbers | None
        if index < 0 or effects[index] == 0:
            return None
        numbers = self._channels.get(channel)
        if effects[index] == _IS_POINT:
            try:
                point: SessionCommandPoint = frame.method
            except (ProtocolError, TypeError):
                pass
            else:
                if numbers is None:
                    self._channels[channel] = ChannelNumbers(point.command_id or 0)
                    self._recent_channel = -1
                else:
                    numbers.next = point.command_id or 0
                return None
        if numbers is not None:
            numbers.next = -1
            if numbers.current is None:
                self._drop(channel)
        return None

    @cython.cfunc
    def _drop(self, channel: cython.int) -> object:
        """Nothing is known of a channel."""
        del self._channels[channel]
        self._recent_channel = -1
        return None

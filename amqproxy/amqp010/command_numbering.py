"""Ids of the commands that one peer sends, derived from its frames alone (section 3.2).

This module may be compiled.
"""

from __future__ import annotations

from collections.abc import Sequence

from amqproxy.amqp010.controls import SessionCommandPoint
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import COMMAND, COMMAND_TRACK, CONTROL, OVERHEAD, Frame, decode_method, index_table
from amqproxy.amqp010.methods import BY_INDEX

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

_COMMAND = cython.declare(cython.int, COMMAND)
_COMMAND_TRACK = cython.declare(cython.int, COMMAND_TRACK)
_MASK = cython.declare(cython.longlong, 0xFFFF_FFFF)
"""Mask of an id; a literal of this size in the code would be a Python object."""
_OVERHEAD = cython.declare(cython.Py_ssize_t, OVERHEAD)
_INDEX_OF = cython.declare(bytes, index_table())
_SEGMENTS = cython.declare(bytes, bytes([cls.segment for cls in BY_INDEX]))
_UNNUMBERED = ("session.attach", "session.attached", "session.detached", "session.gap")
_POINT, _END = 1, 2
_IS_POINT = cython.declare(cython.int, _POINT)
_EFFECTS = cython.declare(
    bytes,
    bytes([_POINT if cls.name == "session.command-point" else _END * (cls.name in _UNNUMBERED) for cls in BY_INDEX]),
)
"""Effect of each control: sets the next id, makes it unknown, or none."""


@cython.final
@cython.no_gc
@cython.auto_pickle(True)
@cython.cclass
class ChannelNumbers:
    """Numbering of one channel: the `next` id, and the `current` one, of the incomplete command; -1 if unknown."""

    def __init__(self, number: int) -> None:
        self.next = number
        self.current = -1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _passed(numbers: ChannelNumbers, kind: cython.int, flags: cython.int) -> cython.longlong:
    """Return the command id, or -1, of a frame that is not of a control."""
    number: cython.longlong
    if kind == _COMMAND and flags & 10 == 10:
        numbers.current = numbers.next
        if numbers.next >= 0:
            numbers.next = (numbers.next + 1) & _MASK
    number = numbers.current
    if flags & 5 == 5:
        numbers.current = -1
    return number


@cython.final
@cython.auto_pickle(True)
@cython.cclass
class CommandNumbering:
    """Numbering of one direction of a connection: pass it each frame, in order.

    Ids are unknown before a session.command-point on their channel.
    """

    def __init__(self) -> None:
        self._channels: dict[int, ChannelNumbers] = {}
        self._recent: ChannelNumbers | None = None
        self._recent_channel = -1

    def numbers(self, frames: Sequence[Frame]) -> list[int | None]:
        """Return the command id of each frame."""
        frame: Frame
        listed: list[Frame] = frames if isinstance(frames, list) else list(frames)
        found: list[int | None] = []
        for frame in listed:
            found.append(self.number(frame))
        return found

    def number(self, frame: Frame) -> int | None:
        """Return the command id of a frame; `None` for a control, or if unknown."""
        number: cython.longlong
        if frame.kind <= _COMMAND and frame.track != _COMMAND_TRACK:
            if self.is_changed_by(frame.index):
                self.apply(frame.channel, frame.index, frame.flags, frame.payload_bytes())
            return None
        number = self.pass_frame(frame.channel, frame.kind, frame.flags)
        return None if number < 0 else number

    def pass_over(self, data: bytes | memoryview) -> None:
        """Advance over complete frames, as `number` does for each."""
        length: cython.Py_ssize_t = len(data)
        position: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t
        kind: cython.int
        index: cython.int
        channel: cython.int
        if not length:
            return
        p: cython.p_const_uchar
        if cython.compiled:
            p = cython.address(data[0])
        else:
            p = data  # type: ignore[assignment]
        index_of: cython.p_const_uchar = _INDEX_OF
        segments: cython.p_const_uchar = _SEGMENTS
        while length - position >= _OVERHEAD:
            end = position + (p[position + 2] << 8 | p[position + 3])
            if end - position < _OVERHEAD or end > length:
                break
            kind = p[position + 1]
            channel = p[position + 6] << 8 | p[position + 7]
            if kind > _COMMAND or p[position + 5] == _COMMAND_TRACK:
                if channel == self._recent_channel and self._recent is not None and self._recent.next >= 0:
                    _passed(self._recent, kind, p[position])
                else:
                    self.pass_frame(channel, kind, p[position])
            elif p[position] & 2 and end - position >= _OVERHEAD + 2:
                index = index_of[p[position + 12] << 8 | p[position + 13]]
                if index != 255 and segments[index] == kind and self.is_changed_by(index):
                    self.apply(channel, index, p[position], bytes(p[position + _OVERHEAD : end]))
            position = end
        if position != length:
            raise ValueError(f"frames that are not whole, {position} bytes into {length}")

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def pass_frame(self, channel: cython.int, kind: cython.int, flags: cython.int) -> cython.longlong:
        """Advance over a frame that is not of a control; return its command id, or -1."""
        number: cython.longlong
        numbers: ChannelNumbers | None
        if channel == self._recent_channel:
            numbers = self._recent
        else:
            numbers = self._recent = self._channels.get(channel)
            self._recent_channel = channel
        if numbers is None:
            return -1
        number = _passed(numbers, kind, flags)
        if numbers.next < 0 and numbers.current < 0:
            self._drop(channel)
        return number

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def pass_commands(self, channel: cython.int, count: cython.longlong) -> cython.longlong:
        """Advance over complete single-frame commands; return the id of the first, or -1."""
        number: cython.longlong = self.pass_frame(channel, _COMMAND, 15)
        if number >= 0 and count > 1:
            self._recent.next = (number + count) & _MASK  # type: ignore[union-attr]
        return number

    def following(self, channel: int) -> int | None:
        """Return the id of the next command on a channel, if known."""
        numbers: ChannelNumbers | None = self._channels.get(channel)
        return None if numbers is None or numbers.next < 0 else numbers.next

    def current(self, channel: int) -> int | None:
        """Return the id of the incomplete command on a channel, if known."""
        numbers: ChannelNumbers | None = self._channels.get(channel)
        return None if numbers is None or numbers.current < 0 else numbers.current

    def skip(self, channel: int, commands: int, *, is_under_way: bool) -> None:
        """Advance over commands on a channel whose frames came elsewhere; the last may still be incomplete."""
        numbers: ChannelNumbers | None = self._channels.get(channel)
        if numbers is None:
            return
        if commands:
            numbers.current = -1
            if numbers.next >= 0:
                numbers.next = (numbers.next + commands) & _MASK
                numbers.current = (numbers.next - 1) & _MASK
        if not is_under_way:
            numbers.current = -1
            if numbers.next < 0:
                self._drop(channel)

    def forget(self) -> None:
        """Forget all ids, since frames are missing."""
        self._channels.clear()
        self._recent_channel = -1

    @cython.cfunc
    @cython.exceptval(check=False)
    def is_changed_by(self, index: cython.int) -> cython.bint:
        """Whether a control changes the numbering."""
        effects: cython.p_const_uchar = _EFFECTS
        return index >= 0 and effects[index] != 0

    @cython.cfunc
    def apply(self, channel: cython.int, index: cython.int, flags: cython.int, payload: bytes) -> object:
        """Apply a control that changes the numbering, or its first piece."""
        effects: cython.p_const_uchar = _EFFECTS
        numbers: ChannelNumbers | None = self._channels.get(channel)
        if effects[index] == _IS_POINT and flags & 3 == 3:
            try:
                point: SessionCommandPoint = decode_method(CONTROL, payload)
            except ProtocolError:
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
            if numbers.current < 0:
                self._drop(channel)
        return None

    @cython.cfunc
    def _drop(self, channel: cython.int) -> object:
        """Forget a channel."""
        del self._channels[channel]
        self._recent_channel = -1
        return None

"""The protocols whose frames are compared with those that tshark shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from amqproxy.amqp010.methods import BY_INDEX as AMQP010_METHODS
from amqproxy.amqp010.protocol_header import NAME as AMQP010
from amqproxy.amqp091.frame import METHOD
from amqproxy.amqp091.methods import BY_INDEX
from amqproxy.amqp091.protocol_header import NAME as AMQP091
from amqproxy.taps.record import TYPES
from amqproxy.tshark.amqp010.dissection import TYPES as AMQP010_TYPES
from amqproxy.tshark.amqp010.dissection import amqp010_frame
from amqproxy.tshark.amqp010.field_comparison import amqp010_field_differences
from amqproxy.tshark.dissected_frame import DissectedFrame
from amqproxy.tshark.field_comparison import FieldDifference, field_differences


class FrameShape(NamedTuple):
    """The kind of a frame, as tshark tells kinds apart, and the name of its method.

    `flags` are 0 in a protocol without; `method` is the class and number, None in a protocol for some of whose methods
    tshark shows those of another.
    """

    type: str
    name: str | None
    flags: int = 0
    method: tuple[int, int] | None = None


class ComparedProtocol(NamedTuple):
    """One protocol that both engines decode."""

    shape_of: Callable[[Any], FrameShape]
    differences: Callable[[Any, DissectedFrame], Iterator[FieldDifference]]


def _shape_of_amqp091(frame: Any) -> FrameShape:
    if frame.kind != METHOD:
        return FrameShape(TYPES[frame.kind], None)
    method: Any = BY_INDEX[frame.index]
    return FrameShape(TYPES[frame.kind], method.name, method=(method.class_id, method.method_id))


def _shape_of_amqp010(frame: Any) -> FrameShape:
    name = AMQP010_METHODS[frame.index].name if frame.index >= 0 else None
    return FrameShape(AMQP010_TYPES[frame.kind], name, frame.flags)


COMPARED = {
    AMQP091: ComparedProtocol(_shape_of_amqp091, field_differences),
    AMQP010: ComparedProtocol(_shape_of_amqp010, amqp010_field_differences),
}

DISSECTORS = {"amqp.track-number": amqp010_frame}
"""Readers of tshark's output for a frame, by the name of a field that only frames of the protocol have."""

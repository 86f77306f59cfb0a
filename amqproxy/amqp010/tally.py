"""Kinds of 0-10 frames, and counters of them."""

from __future__ import annotations

# All classes must exist before they are counted.
from amqproxy.amqp010 import commands, controls
from amqproxy.amqp010.domains import SegmentType
from amqproxy.amqp010.methods import BY_INDEX
from amqproxy.compiled.frame_tally import FrameTally

METHOD_COUNT = len(BY_INDEX)
KINDS = 3 * METHOD_COUNT + 4
"""Number of kinds of frame that a `Tally` distinguishes: controls and commands, their headers and bodies (the second
and third `METHOD_COUNT`), and frames of unknown methods, by type (the last four).
"""

DEFINED = (controls, commands)


class Tally(FrameTally):
    """Frames and bytes by kind of 0-10 frame."""

    def __init__(self) -> None:
        super().__init__(KINDS)


UNCOUNTED = Tally()
"""The shared tally of readers that are given none; a tally takes 4 KiB."""


def kind_labels(slot: int) -> tuple[str, str]:
    """Return the `type` and `method` labels of a slot of a `Tally`; types are control, command, header and body."""
    group, index = divmod(slot, METHOD_COUNT)
    if group == 3:
        return SegmentType(index).name.lower(), ""
    method = BY_INDEX[index]
    return (method.segment.name.lower(), "header", "body")[group], method.name

"""Kinds of 0-9-1 frames, and counters of them."""

from __future__ import annotations

from amqproxy.amqp091.methods import BY_INDEX
from amqproxy.compiled.frame_tally import FrameTally

METHOD_COUNT = len(BY_INDEX)
KINDS = 4 * METHOD_COUNT + 1
"""Number of kinds of frame that a `Tally` distinguishes: methods, their headers and bodies (the second and third
`METHOD_COUNT`), contents without a method (the first two of the fourth), and heartbeats (the last).
"""


class Tally(FrameTally):
    """Frames and bytes by kind of 0-9-1 frame."""

    def __init__(self) -> None:
        super().__init__(KINDS)


UNCOUNTED = Tally()
"""The shared tally of readers that are given none; a tally takes 4 KiB."""


def kind_labels(slot: int) -> tuple[str, str]:
    """Return the `type` and `method` labels of a slot of a `Tally`."""
    if slot == KINDS - 1:
        return "heartbeat", ""
    group, index = divmod(slot, METHOD_COUNT)
    if group == 3:
        return ("header", "body")[index], ""
    return ("method", "header", "body")[group], BY_INDEX[index].name

"""What is shown of one packet: some of its frames, and the numbers of their rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from amqproxy.amqp010.frame import Frame as Amqp010Frame
from amqproxy.amqp091.frame import Frame
from amqproxy.capture.decoded import Decoded, DecodedFrames
from dashboard.missing_frames import MissingFrames

AnyFrame: TypeAlias = Frame | Amqp010Frame


class Selected(NamedTuple):
    """What is shown of one packet, and the numbers of its rows."""

    decoded: Decoded | MissingFrames
    seqs: Sequence[int]


def narrowed(decoded: DecodedFrames, seqs: Sequence[int], shows: Callable[[int, AnyFrame], bool]) -> Selected | None:
    """The frames that are to be shown, by the number of their row; None where none is."""
    frames: Sequence[AnyFrame] = decoded.frames
    places = [place for place, (seq, frame) in enumerate(zip(seqs, frames, strict=True)) if shows(seq, frame)]
    if not places:
        return None
    if len(places) == len(seqs):
        return Selected(decoded, seqs)
    return Selected(decoded.at(places), [seqs[place] for place in places])

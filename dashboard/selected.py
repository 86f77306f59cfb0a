"""Selected rows of one packet: some of its frames, with their row numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from amqproxy.amqp010.frame import Frame as Amqp010Frame
from amqproxy.amqp091.frame import Frame
from amqproxy.capture.decoded import Decoded, DecodedFrames
from amqproxy.dashboard.missing_frames import MissingFrames

AnyFrame: TypeAlias = Frame | Amqp010Frame


class Selected(NamedTuple):
    """Selected traffic of one packet, with its row numbers."""

    decoded: Decoded | MissingFrames
    seqs: Sequence[int]


def narrowed(decoded: DecodedFrames, seqs: Sequence[int], shows: Callable[[int, AnyFrame], bool]) -> Selected | None:
    """Keep only the frames for which `shows` holds, given the row number and the frame; `None` if it holds for none."""
    frames: Sequence[AnyFrame] = decoded.frames
    places = [place for place, (seq, frame) in enumerate(zip(seqs, frames, strict=True)) if shows(seq, frame)]
    if not places:
        return None
    if len(places) == len(seqs):
        return Selected(decoded, seqs)
    return Selected(decoded.at(places), [seqs[place] for place in places])

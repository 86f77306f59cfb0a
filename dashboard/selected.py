"""What is shown of one packet: some of its frames, and the numbers of their rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from amqproxy.amqp010.frame import Frame as Amqp010Frame
from amqproxy.amqp091.frame import Frame
from amqproxy.capture.decoded import Decoded, DecodedAmqp010Frames, DecodedFrames
from dashboard.missing_frames import MissingFrames

AnyFrame: TypeAlias = Frame | Amqp010Frame
AnyDecodedFrames: TypeAlias = DecodedFrames | DecodedAmqp010Frames


class Selected(NamedTuple):
    """What is shown of one packet, and the numbers of its rows."""

    decoded: Decoded | MissingFrames
    seqs: Sequence[int]


def narrowed(decoded: AnyDecodedFrames, seqs: Sequence[int], shows: Callable[[int, AnyFrame], bool]) -> Selected | None:
    """The frames that are to be shown, by the number of their row; None where none is."""
    frames: Sequence[AnyFrame] = decoded.frames
    places = [place for place, (seq, frame) in enumerate(zip(seqs, frames, strict=True)) if shows(seq, frame)]
    if not places:
        return None
    if len(places) == len(seqs):
        return Selected(decoded, seqs)
    return Selected(at_places(decoded, places), [seqs[place] for place in places])


def at_places(decoded: AnyDecodedFrames, places: Sequence[int]) -> AnyDecodedFrames:
    """The frames in these places of a packet, each with what belongs to it."""
    if isinstance(decoded, DecodedFrames):
        return msgspec.structs.replace(decoded, frames=[decoded.frames[place] for place in places])
    return msgspec.structs.replace(
        decoded,
        frames=[decoded.frames[place] for place in places],
        command_ids=[decoded.command_ids[place] for place in places],
    )

"""A selection of what was decoded that never cuts a command: its content goes where its method goes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from amqproxy.amqp091.frame import BODY, HEADER
from amqproxy.capture.decoded import Decoded, DecodedFrames, SkippedBytes, StreamEnded
from amqproxy.capture.filtering import filtered
from amqproxy.rules.matching.filters import Filter

Shows = Callable[[int, int | None], bool]
"""Is what passed at a time, on a channel, selected? The connection's own channel is None or 0."""


def whole_commands(decoded: Iterable[Decoded], shows: Shows, by: Filter | None = None) -> Iterator[Decoded]:
    """What is selected, and the ends of all streams. Content whose method was not seen is selected by itself.

    With a filter, only the commands for which it holds: nothing of what could not be read.
    """
    if by is None:
        return _whole(decoded, shows)
    return _whole((each for each in filtered(decoded, by) if not isinstance(each, SkippedBytes)), shows)


def _whole(decoded: Iterable[Decoded], shows: Shows) -> Iterator[Decoded]:
    chosen: dict[int, dict[tuple[str, int], bool]] = {}
    for each in decoded:
        if isinstance(each, StreamEnded):
            chosen.pop(each.stream, None)
            yield each
        elif isinstance(each, DecodedFrames):
            methods = chosen.setdefault(each.stream, {})
            frames = []
            for frame in each.frames:
                place = (each.sender, frame.channel)
                if frame.kind in (HEADER, BODY):
                    is_shown = methods.get(place)
                    is_shown = shows(each.ts_ns, frame.channel) if is_shown is None else is_shown
                else:
                    is_shown = methods[place] = shows(each.ts_ns, frame.channel)
                if is_shown:
                    frames.append(frame)
            if len(frames) == len(each.frames):
                yield each
            elif frames:
                yield msgspec.structs.replace(each, frames=frames)
        elif shows(each.ts_ns, getattr(each, "channel", None)):
            yield each

"""A selection of decoded traffic that never cuts a command: content follows its method."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from amqproxy.capture.decoded import Decoded, DecodedFrames, SkippedBytes, StreamEnded
from amqproxy.capture.filtering import filtered
from amqproxy.rules.matching.filters import Filter

Shows = Callable[[int, int | None], bool]
"""Whether a time and channel are selected; the connection's own channel is None or 0."""


def whole_commands(decoded: Iterable[Decoded], shows: Shows, by: Filter | None = None) -> Iterator[Decoded]:
    """Yield the selection, and the ends of all streams; content whose method is missing is selected on its own.

    With a filter, only matching commands are yielded, without unreadable bytes, and without frames that number the
    later ones.
    """
    if by is None:
        return _whole(decoded, shows)
    chosen = (each for each in filtered(decoded, by) if not isinstance(each, SkippedBytes))
    return _whole(_without_points(chosen), shows)


_Chosen = dict[tuple[str, int, bool], bool]
"""Whether each peer's current command on a channel is selected; commands may share it with another track."""


def _whole(decoded: Iterable[Decoded], shows: Shows) -> Iterator[Decoded]:
    chosen: dict[int, _Chosen] = {}
    for each in decoded:
        if isinstance(each, StreamEnded):
            chosen.pop(each.stream, None)
            yield each
        elif isinstance(each, DecodedFrames):
            known = chosen.setdefault(each.stream, {})
            are_shown = []
            for channel, is_beside, is_first in each.places():
                place = (each.sender, channel, is_beside)
                if is_first:
                    known[place] = shows(each.ts_ns, channel)
                # without its method, which was lost or came before the capture, each frame counts by itself
                are_shown.append(known[place] if place in known else shows(each.ts_ns, channel))
            if (part := _chosen(each, are_shown)) is not None:
                yield part
        elif shows(each.ts_ns, getattr(each, "channel", None)):
            yield each


def _without_points(decoded: Iterable[Decoded]) -> Iterator[Decoded]:
    for each in decoded:
        if isinstance(each, DecodedFrames):
            found = each.unnumbered()
            if found is not None:
                yield found
        else:
            yield each


def _chosen(decoded: DecodedFrames, are_shown: Sequence[bool]) -> DecodedFrames | None:
    """Return the shown frames, or None if there are none."""
    if all(are_shown):
        return decoded
    places = [place for place, is_shown in enumerate(are_shown) if is_shown]
    return decoded.at(places) if places else None

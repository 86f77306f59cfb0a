"""Pairing of the connections of a two-leg recording that belong to the same session of the proxy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from amqproxy.capture.decoded import Decoded, DecodedFrames, StreamEnded
from amqproxy.taps.leg_number import UPSTREAM

MAX_HELD = 8
"""Packets of an upstream connection that are held until its session is known."""


class SessionLegs:
    """Finds the client-leg connection of each upstream-leg connection.

    Unchanged traffic is recorded on the client's leg first and immediately after on the upstream's, with the same time.
    """

    def __init__(self) -> None:
        self._client_streams: dict[int, int | None] = {}
        self._paired: set[int] = set()
        self._held: dict[int, list[Decoded]] = {}
        self._last: DecodedFrames | None = None

    def noted(self, decoded: Iterable[Decoded]) -> Iterator[Decoded]:
        """Yield the input unchanged, each item once its session is known."""
        for each in decoded:
            stream = each.stream
            if each.leg == "upstream" and stream not in self._client_streams:
                held = self._held.setdefault(stream, [])
                held.append(each)
                found = self._client_stream_of(each)
                if found is None and len(held) < MAX_HELD and not isinstance(each, StreamEnded):
                    continue
                self._client_streams[stream] = found
                yield from self._held.pop(stream)
            else:
                if each.leg == "client" and isinstance(each, DecodedFrames):
                    self._last = each
                yield each
            if isinstance(each, StreamEnded):
                self._client_streams.pop(stream, None)
                self._paired.discard(stream)
        for held in self._held.values():
            yield from held

    def client_stream(self, stream: int) -> int | None:
        """Return the client-leg stream that an upstream-leg stream belongs to, if known."""
        return stream - UPSTREAM if stream >= UPSTREAM else self._client_streams.get(stream)

    def _client_stream_of(self, each: Decoded) -> int | None:
        last = self._last
        if last is None or not isinstance(each, DecodedFrames) or last.stream in self._paired:
            return None
        if (last.ts_ns, last.sender) != (each.ts_ns, each.sender):
            return None
        if [frame.raw for frame in last.frames] != [frame.raw for frame in each.frames]:
            return None
        self._paired.add(last.stream)
        return last.stream

"""A capture as a source; a thread reads its files once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from amqproxy.capture.decode import BOTH_LEGS, read_decoded
from amqproxy.capture.decoded import Decoded, is_upstream_only
from amqproxy.capture.warnings import CaptureError
from amqproxy.dashboard.source import Source, SourceState

PACKETS_AT_A_TIME = 256
"""Packets that the thread decodes before the event loop takes them."""


class CaptureSource(Source):
    """The files of one capture, or of a directory; `size` is their size in bytes, `read` the bytes read so far."""

    kind = "capture"

    def __init__(self, id: int, path: Path, memory: int, on_change: Callable[[], None]) -> None:
        super().__init__(id, path.name or str(path), memory, on_change, is_live=False)
        self.path = path
        self.warnings: list[str] = []

    async def run(self) -> None:
        found = read_decoded(
            self.path, lambda each: self._warn(str(each)), leg=BOTH_LEGS, by_session=True, merges_legs=True
        )
        decoded = one_leg(found)
        self.become(SourceState.LIVE)
        reason = ""
        try:
            while some := await asyncio.to_thread(lambda: list(islice(decoded, PACKETS_AT_A_TIME))):
                await self.take(some)
        except CaptureError as error:
            reason = str(error)
        self.observed.finish(self.ring.newest_ns)
        self.ring.notify()
        self.become(SourceState.ENDED, reason)

    def _warn(self, text: str) -> None:
        if len(self.warnings) < 100:
            self.warnings.append(text)


def one_leg(decoded: Iterator[Decoded]) -> Iterator[Decoded]:
    """Yield the client leg's traffic; of the upstream leg, only what differs there."""
    for each in decoded:
        if each.leg != "upstream" or is_upstream_only(each):
            yield each

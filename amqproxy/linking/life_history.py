"""Lives of messages that the linker has forgotten, without bodies, for hours."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Iterator

import msgspec

from amqproxy.linking.life_record import LifeRecord

BLOCK_BYTES = 64 * 1024
"""Bytes of JSON that are compressed together."""

BLOCK_COST = 200
"""Approximate memory of a block besides its compressed bytes, in bytes."""


class HistoryBlock(msgspec.Struct, frozen=True, gc=False):
    """Lives as compressed lines of JSON; the first and the last began at `first_ns` and `last_ns`."""

    lines: bytes
    count: int
    first_ns: int
    last_ns: int

    @property
    def cost(self) -> int:
        """Approximate memory in bytes."""
        return len(self.lines) + BLOCK_COST


class LifeSearch(msgspec.Struct, frozen=True, kw_only=True):
    """Query for lives that began from `start_ns` on and before `end_ns`, with all of the names given.

    `step_ns` is the time of the publish or of a delivery.
    """

    message_id: str | None = None
    exchange: str | None = None
    routing_key: str | None = None
    queue: str | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    step_ns: int | None = None

    def may_be_in(self, block: HistoryBlock) -> bool:
        """Whether lives in the block may have begun at the time that is searched."""
        if self.start_ns is not None and block.last_ns < self.start_ns:
            return False
        return self.end_ns is None or block.first_ns < self.end_ns

    def matches(self, record: LifeRecord) -> bool:
        """Whether the life is one of those."""
        first_ns = record.first_ns
        if (self.start_ns is not None and first_ns < self.start_ns) or (
            self.end_ns is not None and first_ns >= self.end_ns
        ):
            return False
        publish = record.publish
        for name in ("message_id", "exchange", "routing_key"):
            wanted = getattr(self, name)
            if wanted is not None and (publish is None or getattr(publish, name) != wanted):
                return False
        if self.step_ns is not None:
            times = [each.ts_ns for each in record.deliveries]
            if self.step_ns not in times and (publish is None or publish.ts_ns != self.step_ns):
                return False
        return self.queue is None or any(each.queue == self.queue for each in record.deliveries)

    def needles(self) -> list[bytes]:
        """Return bytes that the JSON of each life that matches contains."""
        given = (self.message_id, self.exchange, self.routing_key, self.queue)
        needles = [msgspec.json.encode(each) for each in given if each]
        return needles if self.step_ns is None else [*needles, b'"ts_ns":%d' % self.step_ns]


class LifeHistory:
    """Lives in at most `memory` bytes: the oldest are dropped."""

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._blocks: deque[HistoryBlock] = deque()
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._pending_ns: list[int] = []
        self.count = 0
        """Number of lives."""
        self.dropped = 0
        self.memory_used = 0
        """Memory of the blocks, in bytes."""

    @property
    def first_ns(self) -> int | None:
        """Start of the oldest life."""
        if self._blocks:
            return self._blocks[0].first_ns
        return min(self._pending_ns, default=None)

    def add(self, record: LifeRecord) -> None:
        """Add a life."""
        line = record.to_json()
        self._pending.append(line)
        self._pending_ns.append(record.first_ns)
        self._pending_bytes += len(line)
        self.count += 1
        if self._pending_bytes < BLOCK_BYTES:
            return
        block = self._pending_block()
        self._pending, self._pending_ns, self._pending_bytes = [], [], 0
        self._blocks.append(block)
        self.memory_used += block.cost
        while self.memory_used > self._memory and len(self._blocks) > 1:
            oldest = self._blocks.popleft()
            self.memory_used -= oldest.cost
            self.count -= oldest.count
            self.dropped += oldest.count

    def snapshot(self) -> list[HistoryBlock]:
        """Return all blocks, the newest first, for `found` in a thread."""
        blocks = list(reversed(self._blocks))
        return [self._pending_block(), *blocks] if self._pending else blocks

    def _pending_block(self) -> HistoryBlock:
        lines = zlib.compress(b"\n".join(self._pending), 1)
        return HistoryBlock(lines, len(self._pending), min(self._pending_ns), max(self._pending_ns))


def found(
    blocks: list[HistoryBlock], search: LifeSearch, is_late: Callable[[], bool] = lambda: False
) -> Iterator[LifeRecord]:
    """Yield the lives that match, the newest first, until `is_late`."""
    needles = search.needles()
    for block in blocks:
        if is_late():
            return
        if not search.may_be_in(block):
            continue
        text = zlib.decompress(block.lines)
        if not all(needle in text for needle in needles):
            continue
        for line in reversed(text.split(b"\n")):
            if all(needle in line for needle in needles):
                record = msgspec.json.decode(line, type=LifeRecord)
                if search.matches(record):
                    yield record

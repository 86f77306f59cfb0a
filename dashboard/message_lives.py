"""Lives of a source's messages across its connections: the recent ones, and a history without bodies."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import islice

from amqproxy.linking.life_history import HistoryBlock, LifeHistory, LifeSearch, found
from amqproxy.linking.life_record import LifeRecord, life_record
from amqproxy.linking.message_life import Delivery, MessageLife, Publish
from amqproxy.linking.message_linker import MessageLinker
from amqproxy.taps.note import Note
from amqproxy.taps.trace.events import TraceEvent

HISTORY_SHARE = 2
"""Ratio of the memory for the history to that for the recent lives."""

SEARCH_SECONDS = 2.0
"""Time after which a search of the history ends with what it has found."""


class FoundLives:
    """Lives that a search has found, the newest first; `is_cut` is whether there may be more."""

    def __init__(self, lives: list[LifeRecord], *, is_cut: bool) -> None:
        self.lives = lives
        self.is_cut = is_cut


class MessageLives:
    """Lives in about `memory` bytes, and the history of those that were forgotten in `HISTORY_SHARE` times as many."""

    def __init__(self, memory: int) -> None:
        self.history = LifeHistory(HISTORY_SHARE * memory)
        self.linker = MessageLinker(memory, on_delivered=self._deliver, on_forgotten=self._forget)
        self._arrived: list[Publish | None] = []

    def take(self, stream: int, events: Sequence[TraceEvent], note: Note) -> list[Publish | None]:
        """Take events of one connection, and return the publish of each message that was delivered for the first time.

        There is one entry for each delivery; `None` for one that is repeated, or may be of another publish.
        """
        self._arrived = []
        self.linker.take(stream, events, note)
        return self._arrived

    @property
    def first_ns(self) -> int | None:
        """Start of the oldest known life."""
        recent = next(iter(self.linker.lives.values()), None)
        starts = (self.history.first_ns, None if recent is None else recent.ts_ns)
        return min([each for each in starts if each is not None], default=None)

    def record(self, life: MessageLife) -> LifeRecord:
        """Return the record of a recent life."""
        return life_record(life, self.linker.connections)

    def recent(self, search: LifeSearch) -> list[LifeRecord]:
        """Return the recent lives that match, the newest first."""
        wanted = search.message_id
        chosen = [life for life in self.linker.lives.values() if wanted is None or life.message_id == wanted]
        return [record for life in reversed(chosen) if search.matches(record := self.record(life))]

    def _deliver(self, life: MessageLife, delivery: Delivery) -> None:
        is_first = delivery.among == 1 and delivery.former is None and not delivery.is_redelivered
        self._arrived.append(life.publish if is_first and delivery.died_in is None else None)

    def _forget(self, life: MessageLife) -> None:
        if life.publish is not None or life.deliveries:
            self.history.add(self.record(life))


def found_in_time(
    recent: list[LifeRecord],
    blocks: list[HistoryBlock],
    search: LifeSearch,
    limit: int,
    clock: Callable[[], float] = time.monotonic,
) -> FoundLives:
    """Return at most `limit` lives, recent ones and those of the history; safe in a thread."""
    stop_at = clock() + SEARCH_SECONDS
    lives = recent[:limit]
    if len(lives) < limit:
        lives += islice(found(blocks, search, lambda: clock() > stop_at), limit - len(lives))
    return FoundLives(lives, is_cut=len(lives) == limit or clock() > stop_at)

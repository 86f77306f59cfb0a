"""Unacknowledged deliveries of one channel by delivery tag."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import islice, takewhile

from amqproxy.amqp091.errors import PreconditionFailed
from amqproxy.broker.queues.consumer import ConsumedQueue, QueueEntry
from amqproxy.broker.queues.paged_bodies import page_out_bodies
from amqproxy.broker.queues.paged_messages import MESSAGE_COST, PageStore

SPARSE = 1024
"""Length of the line above which at least a quarter of its places must hold a delivery."""

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

_SPARSE = cython.declare(cython.Py_ssize_t, SPARSE)


class UnackedDeliveries:
    """Unacknowledged deliveries in ascending tag order; removal costs time for the removed ones only.

    The newest are in a line with a place for each tag from `_first` on; the places before `_start` are empty. When the
    line grows sparse, its deliveries move to the old ones, a dictionary in tag order. `body_bytes` is the total size of
    the bodies in memory.
    """

    __slots__ = ("_count", "_first", "_line", "_old", "_paged_to", "_start", "body_bytes")

    def __init__(self) -> None:
        self._old: dict[int, QueueEntry] = {}
        self._line: list[QueueEntry | None] = []
        self._first = 1
        self._start = 0
        self._count = 0
        self._paged_to = 0
        self.body_bytes = 0

    def __len__(self) -> int:
        return self._count + len(self._old)

    @property
    def oldest(self) -> int:
        """The lowest unacknowledged delivery tag; 0 if there is none."""
        if self._old:
            return next(iter(self._old))
        entry: QueueEntry | None
        place: cython.Py_ssize_t
        for place in range(self._start, len(self._line)):
            entry = self._line[place]
            if entry is not None:
                return entry.tag
        return 0

    def most_up_to(self, tag: cython.ulonglong) -> cython.Py_ssize_t:
        """Return an upper bound of the number of deliveries up to a tag, or of all with 0."""
        count: cython.Py_ssize_t = len(self._old)
        if not tag:
            return count + self._count
        if tag >= self._first:
            count += min(cython.cast(cython.Py_ssize_t, tag - self._first) + 1 - self._start, self._count)
        return count

    def add(self, tag: cython.ulonglong, entry: QueueEntry) -> None:
        entry.tag = tag
        size: cython.Py_ssize_t = len(self._line)
        if tag != self._first + size:
            self._thin_out()
            self._first = tag
        elif size > _SPARSE and size > 4 * self._count:
            if 2 * self._start > size:
                del self._line[: self._start]
                self._first += self._start
                self._start = 0
            else:
                self._thin_out()
                self._first = tag
        self._line.append(entry)
        self._count += 1
        self.body_bytes += len(entry.message.body)

    def settle(self, tag: cython.ulonglong, multiple: cython.bint) -> list[QueueEntry]:
        """Remove and return the deliveries that a client settles: with `multiple` all up to `tag`, or all if it is 0.

        406 for an unknown delivery tag.
        """
        if multiple and not tag:
            return self.take_all()
        entry: QueueEntry = self.find(tag)
        is_old: cython.bint = tag < self._first
        place: cython.Py_ssize_t = 0 if is_old else tag - self._first
        if not multiple:
            if is_old:
                del self._old[tag]
            else:
                self._line[place] = None
                self._count -= 1
                if place == self._start:
                    self._start += 1
            self.body_bytes -= len(entry.message.body)
            return [entry]
        if is_old:
            return self._take_old(tag)
        taken = list(self._old.values())
        self._forget(taken)
        self._old.clear()
        self._take_line(place + 1, taken)
        return taken

    def take_range(self, first: cython.ulonglong, last: cython.ulonglong) -> list[QueueEntry]:
        """Remove and return the deliveries with tags from `first` to `last`, which must be a small range."""
        taken: list[QueueEntry] = []
        entry: QueueEntry | None
        tag: cython.ulonglong = first
        while tag <= last and tag < self._first:
            entry = self._old.pop(tag, None)
            if entry is not None:
                taken.append(entry)
                self.body_bytes -= len(entry.message.body)
            tag += 1
        if tag > last:
            return taken
        start: cython.Py_ssize_t = tag - self._first
        end: cython.Py_ssize_t = min(cython.cast(cython.Py_ssize_t, last - self._first) + 1, len(self._line))
        i: cython.Py_ssize_t
        for i in range(start, end):
            entry = self._line[i]
            if entry is not None:
                self._line[i] = None
                taken.append(entry)
                self._count -= 1
                self.body_bytes -= len(entry.message.body)
        if start <= self._start < end:
            self._start = end
        return taken

    def find(self, tag: cython.ulonglong) -> QueueEntry:
        """Return the delivery with a tag; raise 406 for an unknown tag."""
        entry: QueueEntry | None = None
        if tag < self._first:
            entry = self._old.get(tag)
        elif tag - self._first < len(self._line):
            entry = self._line[tag - self._first]
        if entry is None:
            raise PreconditionFailed(f"unknown delivery tag {tag}")
        return entry

    def parts(self, tag: cython.ulonglong, most: cython.Py_ssize_t) -> Iterator[list[QueueEntry]]:
        """Remove deliveries up to a tag, at most `most` at a time; others may be added meanwhile, but not removed."""
        while True:
            if self._old and next(iter(self._old)) <= tag:
                yield from self._old_parts(tag, most)
            elif self._first + self._start <= tag and self._start < len(self._line):
                taken: list[QueueEntry] = []
                self._take_line(min(self._start + most, tag - self._first + 1, len(self._line)), taken)
                yield taken
            else:
                return

    def _old_parts(self, tag: cython.ulonglong, most: cython.Py_ssize_t) -> Iterator[list[QueueEntry]]:
        old = list(self._old.values())
        for start in range(0, len(old), most):
            taken = [entry for entry in old[start : start + most] if entry.tag <= tag]
            if not taken:
                return
            for entry in taken:
                del self._old[entry.tag]
            self._forget(taken)
            yield taken

    def _take_old(self, tag: cython.ulonglong) -> list[QueueEntry]:
        taken = [self._old.pop(each) for each in [each for each in self._old if each <= tag]]
        self._forget(taken)
        return taken

    def _forget(self, taken: list[QueueEntry]) -> None:
        entry: QueueEntry
        for entry in taken:
            self.body_bytes -= len(entry.message.body)

    def _take_line(self, end: cython.Py_ssize_t, taken: list[QueueEntry]) -> None:
        """Move the deliveries before a place in the line to `taken`."""
        entry: QueueEntry | None
        i: cython.Py_ssize_t
        for i in range(self._start, end):
            entry = self._line[i]
            if entry is not None:
                self._line[i] = None
                taken.append(entry)
                self._count -= 1
                self.body_bytes -= len(entry.message.body)
        self._start = end

    def take_all(self) -> list[QueueEntry]:
        """Remove and return all deliveries, the oldest first."""
        self._thin_out()
        taken = list(self._old.values())
        self._old.clear()
        self.body_bytes = 0
        return taken

    def putting_back(self, entries: Iterable[QueueEntry], most: cython.Py_ssize_t) -> Iterator[int]:
        """Put back removed deliveries after a rollback, about `most` at a time; yield the number processed each time.

        Deliveries may be added meanwhile, but not removed.
        """
        entry: QueueEntry
        left = iter(entries)
        older: list[list[QueueEntry]] = []
        while some := list(islice(left, most)):
            some.sort(key=_by_tag)
            old: list[QueueEntry] = []
            for entry in some:
                if entry.tag < self._first:
                    old.append(entry)
                else:
                    self._put_into_line(entry)
                self.body_bytes += len(entry.message.body)
            if old:
                older.append(old)
            yield len(some)
        if older:
            yield from self._merging(older, most)

    def _put_into_line(self, entry: QueueEntry) -> None:
        place: cython.Py_ssize_t = entry.tag - self._first
        self._line[place] = entry
        self._start = min(self._start, place)
        self._count += 1

    def _merging(self, older: list[list[QueueEntry]], most: cython.Py_ssize_t) -> Iterator[int]:
        """Merge sorted parts into the old deliveries in tag order."""
        merged: dict[int, QueueEntry] = {}
        for entry in merge(*older, list(self._old.values()), key=_by_tag):
            merged[entry.tag] = entry
            if len(merged) % most == 0:
                yield most
        for tag in reversed([*takewhile(lambda tag: tag not in merged, reversed(self._old))]):
            merged[tag] = self._old[tag]
        self._old = merged

    def _thin_out(self) -> None:
        """Move all deliveries in the line to the old ones."""
        entry: QueueEntry | None
        for entry in self._line:
            if entry is not None:
                self._old[entry.tag] = entry
        self._first += len(self._line)
        self._line = []
        self._start = self._count = 0

    # --- paging to disk

    is_deleted = False
    """Always false: it lives as long as its channel."""

    @property
    def bytes_in_memory(self) -> int:
        """Approximate bytes of memory of all deliveries."""
        return self.body_bytes + len(self) * MESSAGE_COST

    def page_out(self, page_store: PageStore, most: int) -> int:
        """Move about `most` bytes of bodies to disk, the oldest first, and return the number of bytes freed.

        `OSError` when they cannot be written.
        """
        freed: int = page_out_bodies(self._in_memory(), page_store, most)
        self.body_bytes -= freed
        return freed

    def _in_memory(self) -> Iterator[QueueEntry]:
        """Iterate over the deliveries that paging has not reached, the oldest first, whose bodies are in memory."""
        for entry in [*self._old.values(), *self._line[self._start :]]:
            if entry is not None and entry.tag > self._paged_to and entry.paged_body is None:
                self._paged_to = entry.tag
                yield entry


def _by_tag(entry: QueueEntry) -> int:
    return entry.tag


def by_queue(entries: list[QueueEntry]) -> Iterable[tuple[ConsumedQueue, list[QueueEntry]]]:
    """Group entries by queue, keeping their order."""
    if len(entries) == 1:
        return ((entries[0].queue, entries),)
    queues: dict[ConsumedQueue, list[QueueEntry]] = {}
    for entry in entries:
        queues.setdefault(entry.queue, []).append(entry)
    return queues.items()

"""Open messages of one direction of a channel, by tag, with the time of each."""

from __future__ import annotations

from amqproxy.taps.metering.distribution import Distribution
from amqproxy.taps.trace.open_tags import Span

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

MAX_OPEN = 65_536
"""Limit on the tags from the oldest open one to the newest, a bit each; beyond it, the oldest are forgotten."""

MAX_READS = 4_096
"""Limit on the reads whose times are kept, 16 bytes each; tags of earlier reads are settled without a latency."""

_LAST_TAG = cython.declare(cython.ulonglong, 0xFFFF_FFFF_FFFF_FFFF)
_MAX_OPEN = cython.declare(cython.Py_ssize_t, MAX_OPEN)
_MAX_READS = cython.declare(cython.Py_ssize_t, MAX_READS)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _load(p: cython.p_uchar, at: cython.Py_ssize_t) -> cython.ulonglong:
    """Return the number in the eight bytes at `at`."""
    if not cython.compiled:
        return int.from_bytes(p[at : at + 8])
    return (
        cython.cast(cython.ulonglong, p[at]) << 56
        | cython.cast(cython.ulonglong, p[at + 1]) << 48
        | cython.cast(cython.ulonglong, p[at + 2]) << 40
        | cython.cast(cython.ulonglong, p[at + 3]) << 32
        | cython.cast(cython.ulonglong, p[at + 4]) << 24
        | cython.cast(cython.ulonglong, p[at + 5]) << 16
        | cython.cast(cython.ulonglong, p[at + 6]) << 8
        | cython.cast(cython.ulonglong, p[at + 7])
    )


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _store(p: cython.p_uchar, at: cython.Py_ssize_t, value: cython.ulonglong) -> cython.void:
    """Write a number to the eight bytes at `at`."""
    i: cython.int
    for i in range(8):
        p[at + i] = (value >> (56 - 8 * i)) & 0xFF


@cython.final
@cython.no_gc
@cython.cclass
class OpenMessages:
    """Set of `count` open tags. Sections 1.8.3.12 and 1.1.2: each tag is above all earlier ones.

    `last` is the newest tag, 0 before the first. `untimed` counts the tags settled without a latency, and `forgotten`
    those that were given up.
    """

    # A bit for each tag from `_first` to `last`, by its lower bits; `_reads` is a ring of first tag and nanoseconds.

    def __init__(self) -> None:
        self.count = 0
        self.last = 0
        self.untimed = 0
        self.forgotten = 0
        self._first = 1
        self._bits = bytearray(8)
        self._capacity = 64
        self._reads = bytearray(16 * 4)
        self._most_reads = 4
        self._oldest_read = 0
        self._read_count = 0

    @property
    def memory_used(self) -> int:
        """Size in bytes of the buffers, which grow."""
        return len(self._bits) + len(self._reads)

    def is_open(self, tag: cython.ulonglong) -> cython.bint:
        """Whether the tag is open."""
        p: cython.p_uchar = self._bits
        place: cython.Py_ssize_t
        if tag < self._first or tag > self.last:
            return False
        place = tag & (self._capacity - 1)
        return (p[place >> 3] >> (place & 7)) & 1 != 0

    def add(self, tag: cython.ulonglong, now_ns: cython.ulonglong, count: cython.longlong = 1) -> None:
        """Open `count` successive tags from `tag`, all of one read.

        A tag that was used before is closed instead, since it is ambiguous then. The largest 64-bit number, which no
        broker reaches, is never opened, so that no count of tags overflows.
        """
        p: cython.p_uchar
        place: cython.Py_ssize_t
        fresh: cython.longlong
        while count > 0 and tag != _LAST_TAG:
            if tag <= self.last:
                self._repeat(tag)
            else:
                if self.count == 0:
                    self._first = tag
                elif tag - self._first >= cython.cast(cython.ulonglong, self._capacity):
                    self._make_room(tag)
                self.last = tag
                self.count += 1
                p = self._bits
                place = tag & (self._capacity - 1)
                p[place >> 3] |= 1 << (place & 7)
                self._note_read(tag, now_ns)
                fresh = self._add_following(count - 1)
                tag += fresh
                count -= fresh
            tag += 1
            count -= 1

    @cython.cfunc
    @cython.exceptval(check=False)
    def _add_following(self, most: cython.longlong) -> cython.longlong:
        """Open up to `most` tags after `last`, of the same read, while there are bits for them; return their number."""
        p: cython.p_uchar = self._bits
        place: cython.Py_ssize_t
        left: cython.longlong
        used: cython.Py_ssize_t = self.last - self._first
        if most > self._capacity - 1 - used:
            most = self._capacity - 1 - used
        if cython.cast(cython.ulonglong, most) >= _LAST_TAG - self.last:
            most = _LAST_TAG - self.last - 1
        left = most
        while left > 0:
            place = (self.last + 1) & (self._capacity - 1)
            if left >= 8 and (place & 7) == 0:
                p[place >> 3] = 0xFF
                self.last += 8
                left -= 8
            else:
                p[place >> 3] |= 1 << (place & 7)
                self.last += 1
                left -= 1
        self.count += most
        return most

    @cython.cfunc
    def _repeat(self, tag: cython.ulonglong) -> object:
        """Close a tag that was used again, and count it as forgotten."""
        if self.is_open(tag):
            self._close(tag)
            self.forgotten += 1
            self._tidy()
        return None

    @cython.cfunc
    def _make_room(self, tag: cython.ulonglong) -> object:
        """Grow, or forget the oldest tags, until there is a bit for `tag`."""
        while self.count and tag - self._first >= cython.cast(cython.ulonglong, self._capacity):
            if self._capacity < _MAX_OPEN:
                self._grow()
            else:
                self._forget_oldest(tag)
        if self.count == 0:
            self._first = tag
        return None

    def settle(
        self, tag: cython.ulonglong, multiple: cython.bint, now_ns: cython.ulonglong, seconds: Distribution
    ) -> cython.longlong:
        """Close a tag, or with `multiple` all up to it (0: all open tags); return the number closed.

        The time that each was open is observed in `seconds`.
        """
        if multiple:
            return 0 if tag > self.last else self.settle_range(self._first, tag or self.last, now_ns, seconds)
        if not self.is_open(tag):
            return 0
        self._close(tag)
        self._observe(self._read_of(tag, 0), now_ns, seconds, 1)
        self._tidy()
        return 1

    def settle_range(
        self, tag: cython.ulonglong, until: cython.ulonglong, now_ns: cython.ulonglong, seconds: Distribution
    ) -> cython.longlong:
        """Close the open tags from `tag` to `until`, inclusive, and return their number; observe as `settle` does."""
        p: cython.p_uchar = self._bits
        place: cython.Py_ssize_t
        settled: cython.longlong = 0
        alike: cython.longlong = 0
        read: cython.Py_ssize_t = -1
        following: cython.ulonglong = 0  # the first tag of the read after `read`
        each: cython.ulonglong = self._next_open(tag if tag > self._first else self._first)
        while each <= until and each <= self.last:
            if each >= following:
                if alike:
                    self._observe(read, now_ns, seconds, alike)
                    alike = 0
                read = self._read_of(each, read if read > 0 else 0)
                following = self._tag_of_read(read + 1) if read + 1 < self._read_count else _LAST_TAG
            place = each & (self._capacity - 1)
            if (
                (place & 7) == 0
                and p[place >> 3] == 0xFF
                and until - each >= 7
                and self.last - each >= 7
                and following - each >= 8
            ):  # eight at once: acknowledgements mostly come in order
                p[place >> 3] = 0
                self.count -= 8
                alike += 8
                settled += 8
                each = self._next_open(each + 8)
                continue
            self._close(each)
            alike += 1
            settled += 1
            each = self._next_open(each + 1)
        if alike:
            self._observe(read, now_ns, seconds, alike)
        if settled:
            self._tidy()
        return settled

    def clear(self) -> cython.longlong:
        """Close all open tags without a latency, and return their number."""
        count: cython.longlong = self.count
        if count:
            self._bits = bytearray(len(self._bits))
            self.count = 0
            self._tidy()
        return count

    @cython.cfunc
    @cython.exceptval(check=False)
    def _next_open(self, tag: cython.ulonglong) -> cython.ulonglong:
        """Return the first open tag at or after `tag`, else a number above `last`; skip eight empty bytes at a time."""
        p: cython.p_uchar = self._bits
        place: cython.Py_ssize_t
        while tag <= self.last:
            place = tag & (self._capacity - 1)
            if (place & 63) == 0 and _load(p, place >> 3) == 0:
                if self.last - tag < 64:
                    return self.last + 1
                tag += 64
            elif (p[place >> 3] >> (place & 7)) & 1:
                return tag
            else:
                tag += 1
        return tag

    @cython.cfunc
    @cython.exceptval(check=False)
    def _close(self, tag: cython.ulonglong) -> cython.void:
        p: cython.p_uchar = self._bits
        place: cython.Py_ssize_t = tag & (self._capacity - 1)
        p[place >> 3] &= 0xFF ^ (1 << (place & 7))
        self.count -= 1

    @cython.cfunc
    @cython.exceptval(check=False)
    def _tidy(self) -> cython.void:
        """Advance `_first` to the oldest open tag, and forget the times of reads before its own."""
        if self.count == 0:
            self._first = self.last + 1
            self._read_count = 0
            return
        self._first = self._next_open(self._first)
        while self._read_count > 1 and self._tag_of_read(1) <= self._first:
            self._drop_oldest_read()

    @cython.cfunc
    def _forget_oldest(self, tag: cython.ulonglong) -> object:
        """Give up the oldest open tag to make room for `tag`, or all of them if that would not suffice."""
        if tag - self.last >= cython.cast(cython.ulonglong, self._capacity):
            self.forgotten += self.clear()
            self._first = tag
            return None
        self._close(self._first)
        self.forgotten += 1
        self._tidy()
        if self.count == 0:
            self._first = tag
        return None

    @cython.cfunc
    def _grow(self) -> object:
        """Double the capacity for tags."""
        old = self._bits
        new = bytearray(2 * len(old))
        p: cython.p_uchar = old
        q: cython.p_uchar = new
        tag: cython.ulonglong = self._first
        place: cython.Py_ssize_t
        while tag <= self.last:
            place = tag & (self._capacity - 1)
            if (p[place >> 3] >> (place & 7)) & 1:
                place = tag & (2 * self._capacity - 1)
                q[place >> 3] |= 1 << (place & 7)
            tag += 1
        self._bits = new
        self._capacity *= 2
        return None

    # --- snapshots

    def spans(self, most: cython.Py_ssize_t, offset_ns: cython.longlong, consumer_tag: str | None) -> tuple[Span, ...]:
        """Return the newest ranges of open tags of one read, `most` at most, oldest first.

        `offset_ns` is added to the time of each. Tags of reads whose time is forgotten are left out.
        """
        p: cython.p_uchar = self._reads
        found: list[Span] = []
        begin: cython.ulonglong
        tag: cython.ulonglong = self._previous_open(self.last)
        read: cython.Py_ssize_t = self._read_count - 1
        at: cython.Py_ssize_t
        while tag >= self._first and len(found) < most:
            while read >= 0 and self._tag_of_read(read) > tag:
                read -= 1
            if read < 0:
                break
            begin = self._begin_of_range(tag, self._tag_of_read(read))
            at = 16 * ((self._oldest_read + read) & (self._most_reads - 1)) + 8
            found.append(Span(begin, tag, offset_ns + cython.cast(cython.longlong, _load(p, at)), consumer_tag))
            tag = self._previous_open(begin - 1)
        found.reverse()
        return tuple(found)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _previous_open(self, tag: cython.ulonglong) -> cython.ulonglong:
        """Return the last open tag at or before `tag`, else a number below `_first`."""
        p: cython.p_uchar = self._bits
        place: cython.Py_ssize_t
        while tag >= self._first:
            place = tag & (self._capacity - 1)
            if (place & 63) == 63 and _load(p, (place >> 3) - 7) == 0:
                if tag - self._first < 64:
                    return self._first - 1
                tag -= 64
            elif (p[place >> 3] >> (place & 7)) & 1:
                return tag
            else:
                tag -= 1
        return tag

    @cython.cfunc
    @cython.exceptval(check=False)
    def _begin_of_range(self, tag: cython.ulonglong, first: cython.ulonglong) -> cython.ulonglong:
        """Return the lowest tag from `first` on from which all tags up to `tag` are open."""
        p: cython.p_uchar = self._bits
        place: cython.Py_ssize_t
        if first < self._first:
            first = self._first
        while tag > first:
            place = (tag - 1) & (self._capacity - 1)
            if (place & 63) == 63 and tag - first >= 64 and _load(p, (place >> 3) - 7) == _LAST_TAG:
                tag -= 64
            elif (p[place >> 3] >> (place & 7)) & 1:
                tag -= 1
            else:
                break
        return tag

    # --- the times of reads

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _tag_of_read(self, number: cython.Py_ssize_t) -> cython.ulonglong:
        """Return the first tag of a read; the oldest read is number 0."""
        p: cython.p_uchar = self._reads
        return _load(p, 16 * ((self._oldest_read + number) & (self._most_reads - 1)))

    @cython.cfunc
    def _note_read(self, tag: cython.ulonglong, now_ns: cython.ulonglong) -> object:
        p: cython.p_uchar = self._reads
        at: cython.Py_ssize_t
        if self._read_count:
            at = 16 * ((self._oldest_read + self._read_count - 1) & (self._most_reads - 1))
            if _load(p, at + 8) == now_ns:
                return None
        if self._read_count == self._most_reads:
            if self._most_reads < _MAX_READS:
                self._grow_reads()
                p = self._reads
            else:
                self._drop_oldest_read()
        at = 16 * ((self._oldest_read + self._read_count) & (self._most_reads - 1))
        _store(p, at, tag)
        _store(p, at + 8, now_ns)
        self._read_count += 1
        return None

    @cython.cfunc
    def _grow_reads(self) -> object:
        start: cython.Py_ssize_t = 16 * self._oldest_read
        reads = self._reads
        self._reads = reads[start:] + reads[:start] + bytearray(len(reads))
        self._oldest_read = 0
        self._most_reads *= 2
        return None

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _drop_oldest_read(self) -> cython.void:
        self._oldest_read = (self._oldest_read + 1) & (self._most_reads - 1)
        self._read_count -= 1

    @cython.cfunc
    @cython.exceptval(check=False)
    def _read_of(self, tag: cython.ulonglong, low: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the number of the read that had a tag, at least `low`; -1 if it is forgotten."""
        high: cython.Py_ssize_t = self._read_count
        middle: cython.Py_ssize_t
        if high == 0 or self._tag_of_read(low) > tag:
            return -1
        while high - low > 1:
            middle = (low + high) >> 1
            if self._tag_of_read(middle) <= tag:
                low = middle
            else:
                high = middle
        return low

    @cython.cfunc
    @cython.exceptval(check=False)
    def _observe(
        self, read: cython.Py_ssize_t, now_ns: cython.ulonglong, seconds: Distribution, count: cython.longlong
    ) -> cython.void:
        """Observe the latency of `count` messages of a read."""
        p: cython.p_uchar = self._reads
        since: cython.ulonglong
        if read < 0:
            self.untimed += count
            return
        since = _load(p, 16 * ((self._oldest_read + read) & (self._most_reads - 1)) + 8)
        seconds.observe((now_ns - since) / 1e9 if now_ns > since else 0.0, count)

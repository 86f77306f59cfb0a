"""Ring buffer of the frames that a pump has forwarded, read by its owner to count messages."""

from __future__ import annotations

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython


@cython.final
@cython.cclass
class Journal:
    """Ring of `size` bytes with chunks of at most `largest` bytes; one thread writes and another reads."""

    def __init__(self, size: int, largest: int) -> None:
        self._size = size
        self._room = 2 * (largest + cython.sizeof(JournalHead) + 32)
        self._bytes = cython.cast(BytePointer, malloc(size))
        if self._bytes == cython.NULL:
            raise MemoryError

    def __dealloc__(self) -> None:
        free(self._bytes)

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def has_room(self) -> cython.bint:
        """Whether there is room for another chunk, at any position in the ring."""
        return self._size - (self._end - load(cython.address(self._start))) > self._room

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def place_for(self, size: cython.Py_ssize_t) -> BytePointer:
        """Return the address for the next chunk of at most `size` bytes; `write` makes it readable."""
        end: cython.ulonglong = self._end
        place: cython.ulonglong
        head: JournalHeadPointer
        if end == load(cython.address(self._start)):
            # Everything is read: restart at the beginning, whose pages are warm. The owner sees it once it sees `end`.
            put(cython.address(self._base), end)
        place = (end - self._base) % self._size
        if self._size - place < cython.sizeof(JournalHead) + size:
            if self._size - place >= cython.sizeof(JournalHead):
                head = cython.cast(JournalHeadPointer, self._bytes + place)
                head.connection = cython.NULL
                head.size = self._size - place - cython.sizeof(JournalHead)
            end += self._size - place
            place = 0
        self._begin = end
        return self._bytes + place + cython.sizeof(JournalHead)

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def write(self, direction: DirectionPointer, written: cython.Py_ssize_t, now: cython.ulonglong) -> cython.bint:
        """Make the chunk written at `place_for` readable; return whether the journal is more than half full then."""
        end: cython.ulonglong = self._begin
        head: JournalHeadPointer = cython.cast(JournalHeadPointer, self._bytes + (end - self._base) % self._size)
        head.connection = cython.cast(PumpedPointer, direction.owner)
        head.at = now
        head.is_server = direction.place
        head.size = written
        end += (cython.sizeof(JournalHead) + written + 7) & ~cython.cast(cython.ulonglong, 7)
        store(cython.address(self._end), end)
        return end - load(cython.address(self._start)) > self._size // 2

    def read(self) -> None:
        """Pass all unread chunks to their connections' `note`.

        Reading continues after a failure, because no chunk of a connection that is freed afterwards may remain. The
        last failure is raised at the end.
        """
        start: cython.ulonglong = self._start
        end: cython.ulonglong
        end = load(cython.address(self._end))
        base: cython.ulonglong = look(cython.address(self._base))
        place: cython.ulonglong
        head: JournalHeadPointer
        connection: PumpedConnection
        failure: object = None
        while start != end:
            place = (start - base) % self._size
            if self._size - place < cython.sizeof(JournalHead):
                start += self._size - place
                continue
            head = cython.cast(JournalHeadPointer, self._bytes + place)
            try:
                if head.connection != cython.NULL:
                    connection = cython.cast(PumpedConnection, head.connection.object)
                    connection.note(
                        head.is_server != 0,
                        PyMemoryView_FromMemory(
                            cython.cast(CharPointer, self._bytes + place + cython.sizeof(JournalHead)),
                            head.size,
                            PyBUF_READ,
                        ),
                        head.at * 1e-9,
                        True,
                    )
            except BaseException as error:  # noqa: BLE001 - raised below
                failure = error
            start += (cython.sizeof(JournalHead) + head.size + 7) & ~cython.cast(cython.ulonglong, 7)
            store(cython.address(self._start), start)
        store(cython.address(self._start), start)
        if failure is not None:
            raise failure

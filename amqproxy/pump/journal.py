"""What has passed on the connections of a pump, until its owner reads it to count messages: a ring of bytes."""

from __future__ import annotations

from amqproxy.amqp010.frame import BODY as AMQP010_BODY
from amqproxy.amqp091.frame import BODY
from amqproxy.taps.metering.amqp010.message_run import Amqp010MessageRun
from amqproxy.taps.metering.amqp091.acknowledgement_run import AcknowledgementRun
from amqproxy.taps.metering.amqp091.message_run import MessageRun

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

_BODY = cython.declare(cython.int, BODY)
_AMQP010_BODY = cython.declare(cython.int, AMQP010_BODY)


@cython.nogil
@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _copy(out: BytePointer, data: ConstBytePointer, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    memcpy(out, data, size)
    return size


@cython.final
@cython.cclass
class Journal:
    """Chunks of at most `largest` bytes, in `size` bytes. One thread writes, and another one reads."""

    def __init__(self, size: int, largest: int) -> None:
        self._size = size
        self._run = MessageRun()
        self._acknowledgements = AcknowledgementRun()
        self._amqp010_run = Amqp010MessageRun()
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
        """Is there room for another chunk, wherever in it that begins?"""
        return self._size - (self._end - load(cython.address(self._start))) > self._room

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def write(
        self,
        direction: DirectionPointer,
        data: ConstBytePointer,
        size: cython.Py_ssize_t,
        now: cython.ulonglong,
    ) -> cython.bint:
        """Write down whole frames that have passed, cut as meters take them. Is it half full after that?"""
        end: cython.ulonglong = self._end
        place: cython.ulonglong
        head: JournalHeadPointer
        out: BytePointer
        written: cython.Py_ssize_t
        if end == load(cython.address(self._start)):
            # All is read: begin again at the start, whose pages are warm. The owner sees that once it has seen `end`.
            put(cython.address(self._base), end)
        place = (end - self._base) % self._size
        if self._size - place < cython.sizeof(JournalHead) + size:
            if self._size - place >= cython.sizeof(JournalHead):
                head = cython.cast(JournalHeadPointer, self._bytes + place)
                head.connection = cython.NULL
                head.size = self._size - place - cython.sizeof(JournalHead)
            end += self._size - place
            place = 0
        head = cython.cast(JournalHeadPointer, self._bytes + place)
        out = self._bytes + place + cython.sizeof(JournalHead)
        head.connection = cython.cast(PumpedPointer, direction.owner)
        head.at = now
        head.is_server = direction.place
        if cython.cast(PumpedPointer, direction.owner).is_amqp010:
            written = self._write_amqp010(direction.place, out, data, size)
        else:
            written = self._write(direction.place, out, data, size)
        head.size = written
        end += (cython.sizeof(JournalHead) + written + 7) & ~cython.cast(cython.ulonglong, 7)
        store(cython.address(self._end), end)
        return end - load(cython.address(self._start)) > self._size // 2

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def _write(
        self, is_server: cython.bint, out: BytePointer, data: ConstBytePointer, size: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Write frames as a `MessageMeter` takes those that are cut: how many bytes that took."""
        position: cython.Py_ssize_t = 0
        written: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t
        while position < size:
            end = self._run.take(is_server, data, position, size)
            if end > position:
                written = self._run.condense(is_server, data, out, written)
                position = end
                continue
            end = self._acknowledgements.take(is_server, data, position, size)
            if end > position:
                written = self._acknowledgements.condense(out, written)
            else:
                end = position + 8 + long_at(data, position + 3)
                written += _copy(out + written, data + position, 7 if data[position] == _BODY else end - position)
            position = end
        return written

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def _write_amqp010(
        self, is_server: cython.bint, out: BytePointer, data: ConstBytePointer, size: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Write frames as an `Amqp010Meter` takes those that are cut: how many bytes that took."""
        position: cython.Py_ssize_t = 0
        written: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t
        while position < size:
            end = self._amqp010_run.take(is_server, data, position, size)
            if end > position:
                written = self._amqp010_run.condense(out, written)
            else:
                end = position + short_at(data, position + 2)
                written += _copy(
                    out + written, data + position, 12 if data[position + 1] == _AMQP010_BODY else end - position
                )
            position = end
        return written

    def read(self) -> None:
        """Give the connections' `note` what has passed on them so far.

        All of it, also where one fails: of a connection that is gone after this, nothing may be left. The last failure
        is raised in the end.
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

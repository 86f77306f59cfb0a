# What C sees of `journal`.

cimport cython
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from amqproxy.compiled.byte_access cimport long_at, short_at
from amqproxy.pump.pumped_connection cimport DirectionPointer, Pumped, PumpedConnection, PumpedDirection, PumpedPointer
from amqproxy.pump.system_calls cimport BytePointer, CharPointer, ConstBytePointer, load, look, put, store
from amqproxy.taps.metering.amqp091.acknowledgement_run cimport AcknowledgementRun
from amqproxy.taps.metering.amqp010.message_run cimport Amqp010MessageRun
from amqproxy.taps.metering.amqp091.message_run cimport MessageRun


cdef extern from "Python.h":
    object PyMemoryView_FromMemory(char *memory, Py_ssize_t size, int flags)
    int PyBUF_READ


cdef struct JournalHead:
    # What lies before the bytes of a chunk.
    Pumped *connection
    unsigned long long at
    int is_server
    unsigned long long size


ctypedef JournalHead *JournalHeadPointer


@cython.final
cdef class Journal:
    cdef unsigned char *_bytes
    cdef unsigned long long _size
    cdef unsigned long long _room
    cdef unsigned long long _start
    cdef unsigned long long _end
    cdef unsigned long long _base
    cdef MessageRun _run
    cdef AcknowledgementRun _acknowledgements
    cdef Amqp010MessageRun _amqp010_run

    cdef bint has_room(self) noexcept nogil
    cdef bint write(self, PumpedDirection *direction, const unsigned char *data, Py_ssize_t size, unsigned long long now) noexcept nogil
    cdef Py_ssize_t _write(self, bint is_server, unsigned char *out, const unsigned char *data, Py_ssize_t size) noexcept nogil
    cdef Py_ssize_t _write_amqp010(self, bint is_server, unsigned char *out, const unsigned char *data, Py_ssize_t size) noexcept nogil

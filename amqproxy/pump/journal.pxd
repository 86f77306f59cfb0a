# What C sees of `journal`.

cimport cython
from libc.stdlib cimport free, malloc

from amqproxy.pump.pumped_connection cimport DirectionPointer, Pumped, PumpedConnection, PumpedDirection, PumpedPointer
from amqproxy.pump.system_calls cimport BytePointer, CharPointer, load, look, put, store


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
    cdef unsigned long long _begin

    cdef bint has_room(self) noexcept nogil
    cdef unsigned char *place_for(self, Py_ssize_t size) noexcept nogil
    cdef bint write(self, PumpedDirection *direction, Py_ssize_t written, unsigned long long now) noexcept nogil

# What C sees of `client_connection`. The rest is in `__dict__`.

from amqproxy.broker.connections.output cimport OutputBuffer
from amqproxy.broker.work cimport Quantum


cdef class ClientConnection:
    cdef dict __dict__
    cdef readonly object broker
    cdef public OutputBuffer output
    cdef public dict channels
    cdef public bint is_over
    cdef public bint is_blocked
    cdef public list _unread
    cdef public bint _is_busy
    cdef Py_ssize_t _place
    cdef object _fault
    cdef object _cause
    cdef Quantum _quantum

    cdef _take(self, list frames, double now)
    cdef _leave(self, list frames, Py_ssize_t place, double now)
    cdef _end_turn(self)

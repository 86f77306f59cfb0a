# What C sees of `session_sender`. The rest is in `__dict__`.

from amqproxy.broker.amqp010.subscription cimport Subscription
from amqproxy.broker.connections.output cimport OutputBuffer

cdef Py_ssize_t _OVERHEAD


cdef class SessionSender:
    cdef readonly int number
    cdef readonly OutputBuffer output
    cdef readonly long long position
    cdef public bint is_over
    cdef public bint keeps
    cdef readonly object replay
    cdef readonly bint awaits_expected
    cdef bint _is_pointed

    cpdef bint may_send(self)
    cdef long long _next(self) except -1
    cpdef long long transfer(self, Subscription subscription, bytes header, bytes body) except -1

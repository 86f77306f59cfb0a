# What C sees of `consumer`.

cimport cython

from amqproxy.broker.connection.deliveries cimport Deliveries


@cython.final
cdef class Consumer:
    cdef public str tag
    cdef public object queue
    cdef public Deliveries deliveries
    cdef public bint no_ack
    cdef public bint exclusive
    cdef public long long prefetch
    cdef public object arguments
    cdef public long long priority
    cdef public long long unacked
    cdef public bint is_blocked
    cdef public bytes head

    cpdef bint is_ready(self)

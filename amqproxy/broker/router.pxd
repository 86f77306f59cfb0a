# What C sees of `router`.

cimport cython

from amqproxy.broker.message cimport Message
from amqproxy.broker.work cimport Quantum


@cython.final
cdef class Route:
    cdef readonly tuple queues
    cdef readonly bint has_no_local
    cdef readonly bint is_cacheable
    cdef readonly bint is_delayed
    cdef readonly bint is_stored


@cython.final
cdef class Router:
    cdef object _exchanges
    cdef object _queues
    cdef object _delayed
    cdef Quantum _quantum
    cdef dict _routes

    cpdef Route route(self, object exchange, Message message, double now)
    cpdef tuple cached(self, object exchange, str routing_key)
    cdef Route _find(self, object first, Message message, double now)

# What C sees of `round_robin`.

from amqproxy.broker.queues.consumer cimport Consumer


cdef class RoundRobin:
    cdef list _lines

    cpdef add(self, Consumer consumer)
    cpdef remove(self, Consumer consumer)
    cpdef wait_no_more(self)
    cpdef Consumer next(self)


cdef class SingleActiveConsumer(RoundRobin):
    cdef public Consumer active
    cdef Consumer _predecessor
    cdef dict _waiting

    cpdef add(self, Consumer consumer)
    cpdef remove(self, Consumer consumer)
    cpdef wait_no_more(self)
    cpdef Consumer next(self)

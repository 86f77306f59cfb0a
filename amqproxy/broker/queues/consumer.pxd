# What C sees of `consumer`.

cimport cython

from amqproxy.broker.message cimport Message


cdef class Consumer


cdef class QueueEntry:
    cdef public object queue
    cdef public Message message
    cdef public long long position
    cdef public double expires_at
    cdef public bytes header
    cdef public Consumer consumer
    cdef public unsigned long long tag
    cdef public bint is_redelivered
    cdef public unsigned int acquired
    cdef public long long delivery_count
    cdef public object paged_body


cpdef QueueEntry taken(object queue, Message message, long long position, double expires_at)


cdef class Receiver:
    cdef public long long held
    cdef public long long global_prefetch

    cpdef bint takes(self, Consumer consumer)
    cpdef deliver(self, Consumer consumer, QueueEntry entry, double now)


@cython.final
cdef class Consumer:
    cdef public str tag
    cdef public object queue
    cdef public Receiver deliveries
    cdef public bint no_ack
    cdef public bint exclusive
    cdef public long long prefetch
    cdef public object arguments
    cdef public long long priority
    cdef public long long unacked
    cdef public bint is_blocked
    cdef public bytes head

    cpdef bint is_ready(self)

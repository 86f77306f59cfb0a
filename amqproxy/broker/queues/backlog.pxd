# What C sees of `backlog`: the types of what every message goes through. There is no `__dict__`, as in `queue`.

from amqproxy.broker.message cimport Message
from amqproxy.broker.queues.consumer cimport QueueEntry, taken


cdef double _NEVER


cdef class Backlog:
    cdef public object on_lost
    cdef public object _fresh
    cdef public object _expiries
    cdef public long long _position
    cdef public list _returned
    cdef public object _paged
    cdef public long long _returned_bytes_paged_out

    cpdef add(self, Message message, double expires_at, object ticket=*)
    cpdef QueueEntry entry(self, object queue, Message message, double expires_at, object ticket=*)
    cpdef QueueEntry take(self, object queue)
    cpdef put_back(self, QueueEntry entry)

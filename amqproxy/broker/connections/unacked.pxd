# What C sees of `unacked`.

cimport cython

from amqproxy.broker.queues.consumer cimport QueueEntry


@cython.final
cdef class UnackedDeliveries:
    cdef dict _old
    cdef list _line
    cdef unsigned long long _first
    cdef Py_ssize_t _start
    cdef Py_ssize_t _count
    cdef readonly long long body_bytes
    cdef unsigned long long _paged_to

    cpdef add(self, unsigned long long tag, QueueEntry entry)
    cpdef list settle(self, unsigned long long tag, bint multiple)
    cpdef list take_range(self, unsigned long long first, unsigned long long last)
    cpdef list take_all(self)
    cpdef Py_ssize_t most_up_to(self, unsigned long long tag)
    cpdef QueueEntry find(self, unsigned long long tag)
    cdef _put_into_line(self, QueueEntry entry)
    cdef list[QueueEntry] _take_old(self, unsigned long long tag)
    cdef _forget(self, list[QueueEntry] taken)
    cdef _take_line(self, Py_ssize_t end, list[QueueEntry] taken)
    cdef _thin_out(self)

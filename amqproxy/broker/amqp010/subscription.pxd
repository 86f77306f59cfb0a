# What C sees of `subscription`.

cimport cython

from amqproxy.broker.queues.consumer cimport Consumer


@cython.final
cdef class Subscription:
    cdef readonly str destination
    cdef public object queue
    cdef readonly bint accepts_explicitly
    cdef readonly bint acquires
    cdef public bint is_window
    cdef public object messages
    cdef public object size
    cdef public long long needs
    cdef public long long window
    cdef public bytes command
    cdef public bytes head
    cdef public bytes body_head
    cdef public Py_ssize_t header_size
    cdef public Py_ssize_t body_size
    cdef public bint is_header_cut
    cdef public bint is_body_cut
    cdef public object resume_id
    cdef public object resume_ttl
    cdef public object selector
    cdef public Consumer consumer
    cdef public object browser

    cpdef bint has_credit(self)
    cpdef spend(self, Py_ssize_t size)
    cpdef give_back(self, Py_ssize_t size)

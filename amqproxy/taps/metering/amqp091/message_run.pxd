# What C sees of `message_run`.

cimport cython

from amqproxy.compiled.byte_access cimport are_alike, long_at, long_long_at, put_number, short_at


@cython.final
cdef class MessageRun:
    cdef int number
    cdef long long count
    cdef long long frames
    cdef unsigned long long size
    cdef unsigned long long tag
    cdef unsigned long long redelivered
    cdef Py_ssize_t consumer_at
    cdef Py_ssize_t consumer_size

    cdef Py_ssize_t take(
        self, bint is_server, const unsigned char *p, Py_ssize_t at, Py_ssize_t length
    ) noexcept nogil
    cdef Py_ssize_t condense(
        self, bint is_server, const unsigned char *p, unsigned char *out, Py_ssize_t at
    ) noexcept nogil
    cdef Py_ssize_t restore(
        self, bint is_server, const unsigned char *p, Py_ssize_t at, Py_ssize_t length
    ) noexcept nogil

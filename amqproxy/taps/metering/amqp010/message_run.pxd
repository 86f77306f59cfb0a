# What C sees of `message_run`.

cimport cython

from amqproxy.compiled.byte_access cimport are_alike, long_at, put_number, short_at

cdef bint needs_no_acceptance(const unsigned char *p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef bint may_be_redelivered(const unsigned char *p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t arguments_at(const unsigned char *p, Py_ssize_t at, Py_ssize_t end) noexcept nogil


@cython.final
cdef class Amqp010MessageRun:
    cdef int channel
    cdef long long count
    cdef long long size
    cdef bint is_accepted

    cdef Py_ssize_t take(
        self, bint is_server, const unsigned char *p, Py_ssize_t at, Py_ssize_t length
    ) noexcept nogil
    cdef Py_ssize_t condense(self, unsigned char *out, Py_ssize_t at) noexcept nogil
    cdef Py_ssize_t restore(self, const unsigned char *p, Py_ssize_t at, Py_ssize_t length) noexcept nogil

# What C sees of `message_run`.

cimport cython
from libc.string cimport memcmp

from amqproxy.compiled.byte_access cimport are_alike, long_at, long_long_at, put_number, short_at


cdef inline bint are_alike_8(const unsigned char *p, Py_ssize_t one, Py_ssize_t other) noexcept nogil:
    return memcmp(p + one, p + other, 8) == 0


@cython.final
cdef class MessageRun:
    cdef int number
    cdef long long count
    cdef long long frames
    cdef unsigned long long method_bytes
    cdef unsigned long long header_bytes
    cdef unsigned long long size
    cdef unsigned long long tag
    cdef unsigned long long redelivered
    cdef Py_ssize_t consumer_at
    cdef Py_ssize_t consumer_size

    cdef Py_ssize_t _header
    cdef Py_ssize_t _body
    cdef Py_ssize_t _end

    cdef Py_ssize_t take(
        self,
        bint is_server,
        const unsigned char *p,
        Py_ssize_t at,
        Py_ssize_t length,
        long long payload_max=*,
        long long header_max=*,
    ) noexcept nogil
    cdef bint _takes_delivery(self, const unsigned char *p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    cdef bint _parse(
        self,
        bint is_server,
        const unsigned char *p,
        Py_ssize_t at,
        Py_ssize_t length,
        long long payload_max,
        long long header_max,
    ) noexcept nogil
    cdef Py_ssize_t condense(
        self, bint is_server, const unsigned char *p, unsigned char *out, Py_ssize_t at
    ) noexcept nogil
    cdef Py_ssize_t restore(
        self, bint is_server, const unsigned char *p, Py_ssize_t at, Py_ssize_t length
    ) noexcept nogil

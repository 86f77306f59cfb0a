# What C sees of `header_shape`.

cimport cython
from libc.string cimport memcmp

from amqproxy.compiled.byte_access cimport long_long_at, put_number

cdef bint is_alike(const unsigned char *p, Py_ssize_t at, const unsigned char *q, Py_ssize_t to, Py_ssize_t size) noexcept


@cython.final
cdef class HeaderShape:
    cdef bytes _source
    cdef bytearray _made
    cdef Py_ssize_t _id_at, _seconds_at, _milliseconds_at
    cdef Py_ssize_t _size_to, _id_to, _seconds_to, _milliseconds_to
    cdef bint _is_text
    cdef bint _is_own
    cdef bytes _last
    cdef unsigned long long _size
    cdef Py_ssize_t _starts[5]
    cdef Py_ssize_t _ends[5]
    cdef int _parts

    cpdef bint matches(self, bytes data, Py_ssize_t start, Py_ssize_t size) except -1
    cdef bint _has_uuid(self, const unsigned char *p, Py_ssize_t at)
    cdef bint _has_time(self, const unsigned char *p, Py_ssize_t start)
    cpdef bytes translated(self, bytes data, Py_ssize_t start, unsigned long long body_size)
    cdef _put_id(self, const unsigned char *p, Py_ssize_t at, unsigned char *out)

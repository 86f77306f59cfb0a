# What C sees of `frame`.

cimport cython
from libc.string cimport memcmp

from amqproxy.amqp091.wire cimport StructDecoder
from amqproxy.compiled.byte_access cimport long_long_at
from amqproxy.compiled.decode_cache cimport DecodeCache


@cython.final
cdef class Frame:
    cdef bytes _buffer
    cdef Py_ssize_t _start
    cdef Py_ssize_t _end
    cdef readonly long long offset
    cdef readonly Py_ssize_t lost
    cdef readonly int kind
    cdef readonly int channel
    cdef readonly int index
    cdef readonly bint is_in_order
    cdef readonly unsigned long long ordinal
    cdef object _decoded

    @staticmethod
    cdef Frame _blank()
    cdef bytes _raw(self)
    cpdef bytes payload_bytes(self)
    cpdef Py_ssize_t length(self)
    cpdef bint is_as(self, bytes raw)
    cpdef unsigned long long long_long_at(self, Py_ssize_t place)
    cpdef int byte_at(self, Py_ssize_t place)
    cpdef unsigned long long announced(self)
    cdef object _decode_method(self)
    cdef object _decode_header(self)

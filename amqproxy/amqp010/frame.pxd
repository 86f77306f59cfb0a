# What C sees of `frame`.

cimport cython

from amqproxy.amqp010.wire cimport StructDecoder, _is_once_only, _structs
from amqproxy.compiled.decode_cache cimport DecodeCache


@cython.final
cdef class Frame:
    cdef bytes _buffer
    cdef Py_ssize_t _start
    cdef Py_ssize_t _end
    cdef readonly long long offset
    cdef readonly Py_ssize_t lost
    cdef readonly int flags
    cdef readonly int kind
    cdef readonly int track
    cdef readonly int channel
    cdef readonly int index
    cdef readonly bint is_in_order
    cdef object _decoded

    @staticmethod
    cdef Frame _blank()
    cdef bytes _raw(self)
    cpdef bytes payload_bytes(self)
    cpdef Py_ssize_t length(self)
    cdef object _decode_whole_method(self)
    cdef object _decode_whole_header(self)

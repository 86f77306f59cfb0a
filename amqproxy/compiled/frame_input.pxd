# What C sees of `frame_input`.

from amqproxy.compiled.frame_tally cimport FrameTally


cdef class FrameInput:
    cdef readonly FrameTally tally
    cdef readonly long long offset
    cdef readonly long long frames
    cdef long long _frames_before
    cdef object _taken
    cdef bytes _head
    cdef bytes _data
    cdef bytes _refused
    cdef Py_ssize_t _start
    cdef Py_ssize_t _end
    cdef readonly object error
    cdef public bint zero_copy
    cdef public Py_ssize_t quantum
    cdef readonly bint is_paused
    cdef bytearray _tail
    cdef Py_ssize_t _missing
    cdef bytes _wants
    cdef bint _wants_content

    cpdef list feed(self, bytes data)
    cpdef list resume(self)
    cpdef object between(self, long long start, long long end)
    cdef object _begin(self)
    cdef object _scan_on(self, list frames)
    cdef Py_ssize_t _scan(self, bytes data, Py_ssize_t start, Py_ssize_t length, list frames) except -1

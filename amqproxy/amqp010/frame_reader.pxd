# What C sees of `frame_reader`.

cimport cython

from amqproxy.amqp010.frame cimport Frame
from amqproxy.amqp010.tally cimport Tally


cdef int next_state(int state, int flags, int kind, int track, int index, bint may_go_on) noexcept nogil


@cython.final
cdef class FrameReader:
    cdef readonly long long offset
    cdef readonly unsigned long long frames
    cdef unsigned long long _frames_before
    cdef object _taken
    cdef bytes _head
    cdef bytes _data
    cdef bytes _refused
    cdef Py_ssize_t _start
    cdef Py_ssize_t _end
    cdef readonly object error
    cdef readonly Tally tally
    cdef public bint zero_copy
    cdef public Py_ssize_t quantum
    cdef readonly bint is_paused
    cdef bytearray _tail
    cdef Py_ssize_t _missing
    cdef dict _states
    cdef int _track
    cdef int _state
    cdef int _fresh
    cdef readonly int channel_max
    cdef readonly int frame_max
    cdef int _frame_max
    cdef bytes _wants
    cdef bint _wants_content

    cdef Py_ssize_t _scan(self, bytes data, Py_ssize_t start, Py_ssize_t length, list frames) except -1
    cdef object _scan_on(self, list frames)
    cdef bint _begins_malformed(self, const unsigned char *p, Py_ssize_t at) noexcept
    cdef void _turn_to(self, int track) except *

# What C sees of `frame_reader`.

cimport cython

from amqproxy.amqp010.frame cimport Frame
from amqproxy.compiled.frame_input cimport FrameInput


cdef int next_state(int state, int flags, int kind, int track, int index, bint may_go_on) noexcept nogil


@cython.final
cdef class FrameReader(FrameInput):
    cdef dict _states
    cdef int _track
    cdef int _state
    cdef int _fresh
    cdef readonly int channel_max
    cdef readonly int frame_max
    cdef int _frame_max

    cdef bint _begins_malformed(self, const unsigned char *p, Py_ssize_t at) noexcept
    cdef void _turn_to(self, int track) except *

# What C sees of `frame_reader`: the types of what is on the way of every frame.

cimport cython

from amqproxy.amqp091.frame cimport Frame
from amqproxy.amqp091.pass_cache cimport CachedPass, PassCache
from amqproxy.compiled.byte_access cimport long_at, long_long_at
from amqproxy.compiled.frame_input cimport FrameInput


@cython.final
cdef class ContentState:
    cdef readonly int expects
    cdef readonly int index
    cdef readonly unsigned long long remaining
    cdef readonly unsigned long long contents
    cdef public bint is_watched
    cdef readonly bint is_shown
    cdef public bint is_lenient

    cdef inline int _step(self, const unsigned char *p, int kind, int index, long long size, Py_ssize_t position) noexcept


@cython.final
cdef class FrameReader(FrameInput):
    cdef readonly long long frame_max
    cdef readonly long long header_max
    cdef readonly dict content_states
    cdef readonly bint is_lenient
    cdef public PassCache unseen
    cdef public list spending
    cdef list _splices
    cdef Py_ssize_t _next_splice
    cdef long long _payload_max
    cdef ContentState _recent
    cdef int _recent_channel

    cdef Py_ssize_t _copy(self, unsigned char *out, Py_ssize_t at, Py_ssize_t start, Py_ssize_t end) except -1

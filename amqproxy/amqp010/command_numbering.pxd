# What C sees of `command_numbering`.

cimport cython

from amqproxy.amqp010.frame cimport Frame


@cython.final
cdef class ChannelNumbers:
    cdef long long next
    cdef long long current


@cython.final
cdef class CommandNumbering:
    cdef dict _channels
    cdef ChannelNumbers _recent
    cdef int _recent_channel

    cpdef list numbers(self, frames)
    cpdef object number(self, Frame frame)
    cpdef object pass_over(self, const unsigned char[::1] data)
    cdef long long pass_frame(self, int channel, int kind, int flags) except -2
    cdef long long pass_commands(self, int channel, long long count) except -2
    cdef bint is_changed_by(self, int index) noexcept
    cdef object apply(self, int channel, int index, int flags, bytes payload)
    cdef object _drop(self, int channel)

# What C sees of `command_numbering`.

cimport cython

from amqproxy.amqp010.frame cimport Frame


@cython.final
cdef class ChannelNumbers:
    cdef long long next
    cdef object current


@cython.final
cdef class CommandNumbering:
    cdef dict _channels
    cdef ChannelNumbers _recent
    cdef int _recent_channel

    cpdef list numbers(self, frames)
    cpdef object number(self, Frame frame)
    cdef object _apply(self, int channel, Frame frame)
    cdef object _drop(self, int channel)

# What C sees of `pumped_connection`.

cimport cython

from amqproxy.amqp010.frame_reader cimport FrameReader
from amqproxy.pump.pumped_connection cimport ChannelContentPointer, DirectionPointer, PumpedConnection


@cython.final
cdef class Amqp010PumpedConnection(PumpedConnection):
    cdef object _numberings
    cdef list _tracks

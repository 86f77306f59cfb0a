# What C sees of `amqp010_pumped_connection`.

cimport cython
from libc.stdlib cimport calloc

from amqproxy.amqp010.frame_reader cimport FrameReader
from amqproxy.pump.pumped_connection cimport (
    ChannelContent, ChannelContentPointer, DirectionPointer, PumpedConnection,
)
from amqproxy.pump.system_calls cimport look


@cython.final
cdef class Amqp010PumpedConnection(PumpedConnection):
    cdef object _numberings
    cdef list _tracks

# What C sees of `pumped_connection`.

cimport cython

from amqproxy.amqp091.frame_reader cimport ContentState, FrameReader
from amqproxy.pump.pumped_connection cimport ChannelContentPointer, DirectionPointer, PumpedConnection
from amqproxy.pump.system_calls cimport look, look_int


@cython.final
cdef class Amqp091PumpedConnection(PumpedConnection):
    pass

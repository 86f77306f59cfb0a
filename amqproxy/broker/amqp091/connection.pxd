# What C sees of `connection`. The rest is in `__dict__`.

from amqproxy.amqp091.frame cimport Frame
from amqproxy.amqp091.frame_reader cimport FrameReader
from amqproxy.broker.amqp091.channel cimport BrokerChannel
from amqproxy.broker.amqp091.publisher cimport Publisher
from amqproxy.broker.connections.client_connection cimport ClientConnection

cdef int _PUBLISH, _METHOD, _ACK, _NACK, _REJECT


cdef class Amqp091Connection(ClientConnection):
    cdef public object protocol
    cdef FrameReader _reader

    cdef _take(self, list frames, double now)
    cdef _end_turn(self)

# What C sees of `connection`. The rest is in `__dict__`.

from amqproxy.amqp091.frame cimport Frame
from amqproxy.amqp091.frame_reader cimport FrameReader
from amqproxy.broker.connections.output cimport OutputBuffer
from amqproxy.broker.amqp091.publisher cimport Publisher
from amqproxy.broker.amqp091.channel cimport BrokerChannel

from amqproxy.broker.work cimport Quantum

cdef int _PUBLISH, _METHOD, _ACK, _NACK, _REJECT


cdef class Amqp091Connection:
    cdef dict __dict__
    cdef public OutputBuffer output
    cdef public dict channels
    cdef public bint is_over
    cdef public object protocol
    cdef public list _unread
    cdef public bint _is_busy
    cdef Py_ssize_t _place
    cdef Quantum _quantum
    cdef FrameReader _reader

    cdef _take(self, list[Frame] frames, double now)

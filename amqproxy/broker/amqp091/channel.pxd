# What C sees of `channel`. The rest is in `__dict__`.

from amqproxy.broker.amqp091.deliveries cimport Deliveries
from amqproxy.broker.amqp091.publisher cimport Publisher


cdef class BrokerChannel:
    cdef dict __dict__
    cdef public Publisher publisher
    cdef public Deliveries deliveries

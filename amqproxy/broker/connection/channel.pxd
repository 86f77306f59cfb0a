# What C sees of `channel`. The rest is in `__dict__`.

from amqproxy.broker.connection.deliveries cimport Deliveries
from amqproxy.broker.connection.publisher cimport Publishes


cdef class ServerChannel:
    cdef dict __dict__
    cdef public Publishes publishes
    cdef public Deliveries deliveries

# What C sees of `vhost`: what is asked of every message. The rest is in `__dict__`.

from amqproxy.broker.events cimport EventDispatcher
from amqproxy.broker.message_counts cimport MessageCounts
from amqproxy.broker.router cimport Router


cdef class VirtualHost:
    cdef dict __dict__
    cdef public str name
    cdef public EventDispatcher events
    cdef public bint is_traced
    cdef readonly MessageCounts counts
    cdef public long long generation
    cdef readonly Router router

# What C sees of `deliveries`.

from amqproxy.broker.connections.unacked cimport UnackedDeliveries
from amqproxy.broker.events cimport EventDispatcher
from amqproxy.broker.queues.consumer cimport QueueEntry, Receiver
from amqproxy.broker.queues.queue cimport Queue
from amqproxy.broker.vhost cimport VirtualHost
from amqproxy.broker.work cimport Quantum


cdef class ChannelDeliveries(Receiver):
    cdef public object channel
    cdef readonly UnackedDeliveries unacked
    cdef readonly unsigned long long last_tag
    cdef VirtualHost _vhost
    cdef EventDispatcher _events
    cdef Quantum _quantum

    cpdef apply(self, list[QueueEntry] entries, str outcome, double now)
    cdef _apply_in(self, Queue queue, list[QueueEntry] entries, str outcome, double now)

# What C sees of `deliveries`.

from amqproxy.broker.connections.unacked cimport UnackedDeliveries
from amqproxy.broker.events cimport EventDispatcher
from amqproxy.broker.message_counts cimport MessageCounts
from amqproxy.broker.queues.consumer cimport QueueEntry, Receiver
from amqproxy.broker.queues.queue cimport Queue
from amqproxy.broker.vhost cimport VirtualHost
from amqproxy.broker.work cimport Quantum


cdef class ChannelDeliveries(Receiver):
    cdef public object channel
    cdef readonly UnackedDeliveries unacked
    cdef readonly unsigned long long last_tag
    cdef readonly MessageCounts counts
    cdef MessageCounts _totals
    cdef VirtualHost _vhost
    cdef EventDispatcher _events
    cdef Quantum _quantum

    cdef _count_delivery(self, Queue queue, bint no_ack, bint is_redelivered)
    cdef _count_acks(self, Py_ssize_t count)
    cpdef apply(self, list[QueueEntry] entries, str outcome, double now)
    cdef _apply_in(self, Queue queue, list[QueueEntry] entries, str outcome, double now)

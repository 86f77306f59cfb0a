# What C sees of `session_deliveries`. There is no `__dict__`, as in `queue`.

from amqproxy.broker.amqp010.session_sender cimport SessionSender
from amqproxy.broker.amqp010.subscription cimport Subscription
from amqproxy.broker.amqp010.transfer_headers cimport TransferHeaders
from amqproxy.broker.connections.deliveries cimport ChannelDeliveries
from amqproxy.broker.queues.consumer cimport Consumer, QueueEntry


cdef class SessionDeliveries(ChannelDeliveries):
    cdef readonly SessionSender sender
    cdef public dict subscriptions
    cdef readonly dict browsed
    cdef readonly dict acquired
    cdef dict _in_flight
    cdef TransferHeaders _headers

    cpdef bint takes(self, Consumer consumer)
    cpdef deliver(self, Consumer consumer, QueueEntry entry, double now)
    cpdef bint accept_few(self, list[range] ids, double now) except -1

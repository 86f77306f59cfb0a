# What C sees of `session_deliveries`. There is no `__dict__`, as in `queue`.

from amqproxy.broker.amqp010.session_sender cimport SessionSender
from amqproxy.broker.amqp010.subscription cimport Subscription
from amqproxy.broker.amqp010.transfer_headers cimport TransferHeaders
from amqproxy.broker.connections.unacked cimport UnackedDeliveries
from amqproxy.broker.events cimport EventDispatcher
from amqproxy.broker.queues.consumer cimport Consumer, QueueEntry, Receiver
from amqproxy.broker.vhost cimport VirtualHost
from amqproxy.broker.work cimport Quantum


cdef class SessionDeliveries(Receiver):
    cdef public object session
    cdef readonly SessionSender sender
    cdef public dict subscriptions
    cdef public UnackedDeliveries unacked
    cdef readonly unsigned long long last_tag
    cdef readonly dict browsed
    cdef readonly dict acquired
    cdef dict _in_flight
    cdef TransferHeaders _headers
    cdef VirtualHost _vhost
    cdef EventDispatcher _events
    cdef Quantum _quantum

    cpdef bint takes(self, Consumer consumer)
    cpdef deliver(self, Consumer consumer, QueueEntry entry, double now)
    cpdef bint accept_few(self, list[range] ids, double now) except -1
    cpdef apply(self, list[QueueEntry] entries, str outcome, double now, bint redelivered=*)

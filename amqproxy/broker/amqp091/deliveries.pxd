# What C sees of `deliveries`. There is no `__dict__`, as in `queue`.

from amqproxy.amqp091.frame cimport Frame
from amqproxy.broker.connections.output cimport OutputBuffer
from amqproxy.broker.connections.unacked cimport UnackedDeliveries
from amqproxy.broker.events cimport EventDispatcher
from amqproxy.broker.queues.consumer cimport Consumer, QueueEntry, Receiver
from amqproxy.broker.queues.queue cimport Queue
from amqproxy.broker.work cimport Quantum

cdef long long _UNLIMITED, _AT_ONCE
cdef int _ACK, _SETTLEMENT, _MULTIPLE, _REQUEUE


cdef class Deliveries(Receiver):
    cdef public int number
    cdef public object channel
    cdef public object vhost
    cdef public EventDispatcher events
    cdef public OutputBuffer output
    cdef public dict consumers
    cdef public UnackedDeliveries unacked
    cdef public bint is_transactional
    cdef unsigned long long _last_tag
    cdef Quantum _quantum
    cdef list _pending

    cpdef bint takes(self, Consumer consumer)
    cpdef deliver(self, Consumer consumer, QueueEntry entry, double now)
    cpdef settle(self, Frame frame, double now)
    cdef _take(self, unsigned long long tag, bint multiple, str outcome, double now)
    cdef _apply_in(self, Queue queue, list[QueueEntry] entries, str outcome, double now)
    cpdef apply(self, list[QueueEntry] entries, str outcome, double now)

# What C sees of `deliveries`. There is no `__dict__`, as in `queue`.

from amqproxy.amqp091.frame cimport Frame
from amqproxy.broker.connections.deliveries cimport ChannelDeliveries
from amqproxy.broker.connections.output cimport OutputBuffer
from amqproxy.broker.queues.consumer cimport Consumer, QueueEntry

cdef long long _UNLIMITED, _AT_ONCE
cdef int _ACK, _SETTLEMENT, _MULTIPLE, _REQUEUE


cdef class Deliveries(ChannelDeliveries):
    cdef public int number
    cdef public OutputBuffer output
    cdef public dict consumers
    cdef public bint is_transactional
    cdef list _pending

    cpdef bint takes(self, Consumer consumer)
    cpdef deliver(self, Consumer consumer, QueueEntry entry, double now)
    cpdef settle(self, Frame frame, double now)
    cdef _take(self, unsigned long long tag, bint multiple, str outcome, double now)

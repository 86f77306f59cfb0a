# What C sees of `publisher`.

cimport cython

from amqproxy.amqp091.frame cimport Frame
from amqproxy.broker.message cimport Message
from amqproxy.broker.message_counts cimport MessageCounts
from amqproxy.broker.connections.output cimport OutputBuffer
from amqproxy.broker.queues.queue cimport Queue
from amqproxy.broker.vhost cimport VirtualHost
from amqproxy.broker.work cimport Quantum

cdef int _METHOD, _BODY
cdef Py_ssize_t _MAX_ROUTES, _AT_ONCE, _MANY


@cython.final
cdef class CachedRoute:
    cdef readonly object publish
    cdef readonly object exchange
    cdef readonly MessageCounts counts
    cdef readonly str exchange_name
    cdef readonly str routing_key
    cdef readonly bint is_mandatory
    cdef readonly bint is_answer
    cdef readonly long long generation
    cdef readonly object user_generation
    cdef public tuple queues


@cython.final
cdef class Publisher:
    cdef readonly object channel
    cdef readonly int number
    cdef readonly VirtualHost vhost
    cdef readonly object user
    cdef readonly OutputBuffer output
    cdef public bint is_confirming
    cdef public bint is_transactional
    cdef unsigned long long _largest
    cdef unsigned long long _announced_max
    cdef object _journal
    cdef object _ticket
    cdef object _tickets
    cdef bint _is_to_confirm
    cdef unsigned long long _count
    cdef bint _waits_for_disk
    cdef unsigned long long _acks
    cdef unsigned long long _last_ack
    cdef list _rejected
    cdef bytes _method
    cdef CachedRoute _route
    cdef object _publish
    cdef dict _cached_routes
    cdef bytes _header
    cdef object _properties
    cdef Frame _header_frame
    cdef bytes _known_header
    cdef bytes _body
    cdef list _bodies
    cdef unsigned long long _announced
    cdef unsigned long long _remaining
    cdef list _pending
    cdef Quantum _quantum
    cdef readonly MessageCounts counts
    cdef MessageCounts _totals

    cpdef receive(self, Frame frame, double now)
    cdef _begin(self, Frame frame)
    cdef _accept(self, double now)
    cdef CachedRoute _find_route(self)
    cdef Message _with_properties_checked(self, CachedRoute route, Frame frame, bytes body)
    cdef _count_publish(self, MessageCounts exchange, tuple queues)
    cdef _ack(self, unsigned long long tag, unsigned long long acks)
    cdef _enqueue(self, bint is_mandatory, Message message, object queues, double now)
    cdef _enqueue_nowhere(self, bint is_mandatory, Message message)
    cdef bint _are_many(self, tuple queues)
    cdef _to_confirm(self, bint is_taken)
    cdef _settle(self, int method_id, unsigned long long tag, int bits)

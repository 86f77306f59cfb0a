# What C sees of `session_publisher`. The rest is in `__dict__`.

cimport cython

from amqproxy.amqp010.assembly cimport Assembly
from amqproxy.amqp010.command_ids cimport CommandIds
from amqproxy.amqp010.frame cimport Frame
from amqproxy.broker.amqp010.completions cimport Completions
from amqproxy.broker.amqp010.header_shape cimport HeaderShape, is_alike
from amqproxy.broker.message cimport Message
from amqproxy.broker.message_counts cimport MessageCounts
from amqproxy.broker.queues.queue cimport Queue
from amqproxy.broker.vhost cimport VirtualHost
from amqproxy.broker.work cimport Quantum

cdef Py_ssize_t _AT_ONCE


@cython.final
cdef class CachedTransfer:
    cdef readonly bytes command
    cdef readonly HeaderShape shape
    cdef readonly object properties
    cdef readonly str exchange_name
    cdef readonly str routing_key
    cdef readonly tuple queues
    cdef readonly bint is_accepted
    cdef readonly long long generation
    cdef readonly object user_generation


@cython.final
cdef class SessionPublisher:
    cdef dict __dict__
    cdef readonly object session
    cdef readonly Completions completions
    cdef readonly VirtualHost vhost
    cdef readonly object user
    cdef object _journal
    cdef object _ticket
    cdef CommandIds _waiting
    cdef Quantum _quantum
    cdef readonly MessageCounts counts
    cdef MessageCounts _totals
    cdef dict _known
    cdef Py_ssize_t _known_bytes
    cdef object _header
    cdef object _properties
    cdef bytes _content_header
    cdef unsigned long long _size
    cdef readonly Py_ssize_t largest
    cdef CachedTransfer _cached
    cdef bint _is_cacheable

    cpdef bint transfer(self, Assembly assembly, long long position, double now) except -1
    cpdef bint knows(self, Frame command, Frame header) except -1
    cdef bint _is_as(self, CachedTransfer cached, Frame command, Frame header) except -1
    cdef CachedTransfer _find(self, Frame command, Frame header)
    cpdef bint transfer_known(self, Frame header, bytes body, long long position, double now) except -1
    cdef bytes _content_header_of(self, unsigned long long size)
    cdef _count_publish(self, Message message, tuple queues)
    cdef bint _give(self, Message message, tuple queues, long long position, double now) except -1
    cpdef enqueue(self, Message message, tuple queues, double now)
    cdef bint _is_waiting(self, long long position) except -1

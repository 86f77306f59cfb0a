# What C sees of `queue`. Its subclasses are plain Python, and override what they like of this. There is no `__dict__`:
# with one, C looks in it for another method before each call, at 500 instructions.

from amqproxy.broker.message cimport Message
from amqproxy.broker.message_counts cimport MessageCounts
from amqproxy.broker.queues.backlog cimport Backlog
from amqproxy.broker.queues.consumer cimport Consumer, QueueEntry
from amqproxy.broker.queues.round_robin cimport RoundRobin
from amqproxy.broker.work cimport Quantum

cdef double _NEVER
cdef long long _UNLIMITED
cdef int _FLAGS, _HAS_EXPIRATION, _HAS_PRIORITY, _LETTING_GO


cdef class Queue:
    cdef public long long _count
    cdef public Consumer _exclusive
    cdef public int _holds
    cdef public bint _is_dropping
    cdef public bint _is_late
    cdef public bint _is_listed
    cdef public bint _is_pumping
    cdef public bint _is_refusing
    cdef public bint _is_timed
    cdef public object _storage
    cdef public list _backlogs
    cdef public double _looked_at
    cdef public long long _max_length
    cdef public long long _max_bytes
    cdef public int _max_priority
    cdef public int _priority_offset
    cdef public int _usual_priority
    cdef public object _orphans
    cdef public object _owner
    cdef public Quantum _quantum
    cdef public object _ttl
    cdef public RoundRobin _round_robin
    cdef public double _used_at
    cdef public object arguments
    cdef public bint auto_delete
    cdef public dict consumers
    cdef readonly MessageCounts counts
    cdef public dict lookers
    cdef public bint durable
    cdef public object exclusive_to
    cdef public bint is_deleted
    cdef public bint is_no_local
    cdef public bint is_orphaning
    cdef public object locked_by
    cdef public str name
    cdef public long long body_bytes
    cdef public object policy
    cdef public object policy_names
    cdef public tuple sampled
    cdef public object settings
    cdef public long long unacked

    cpdef bint publish(self, Message message, double now, object ticket=*) except -1
    cpdef QueueEntry _take(self)
    cpdef ack(self, list[QueueEntry] entries, double now)
    cpdef _acked(self, list[QueueEntry] entries)
    cpdef bint expire(self, double now) except -1
    cpdef _release(self, QueueEntry entry)
    cdef int _level(self, Message message, int flags) except -1
    cpdef pump(self, double now)
    cpdef _hand_out(self, QueueEntry entry, Consumer consumer, double now)
    cpdef hold(self, QueueEntry entry, Consumer consumer)

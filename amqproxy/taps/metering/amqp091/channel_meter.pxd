# What C sees of `channel_meter`.

cimport cython

from amqproxy.compiled.byte_access cimport is_at
from amqproxy.taps.metering.message_counts cimport MessageCounts
from amqproxy.taps.metering.amqp091.open_messages cimport OpenMessages


@cython.final
cdef class ChannelMeter:
    cdef MessageCounts _counts
    cdef public bint confirms
    cdef public bint is_unread
    cdef bint _closed_by_client
    cdef unsigned long long _published
    cdef OpenMessages _unconfirmed
    cdef OpenMessages _unacked
    cdef object _consumers
    cdef long _consumer_count
    cdef bint _has_auto_acks
    cdef bytes _recent_tag
    cdef bint _is_recent_auto_acked
    cdef object _pending
    cdef long _recovering
    cdef object _settlements
    cdef object _room

    cpdef published(self, unsigned long long now_ns, long long count=*)
    cpdef confirm(self, unsigned long long tag, bint multiple, bint is_nack, unsigned long long now_ns, long long count=*)
    cdef bint is_auto_acked(self, const unsigned char *p, Py_ssize_t at, Py_ssize_t size) except -1
    cpdef delivered(self, unsigned long long tag, unsigned long long now_ns, long long count=*)
    cpdef settle_run(
        self, unsigned long long tag, long long tags, bint multiple, int count, unsigned long long now_ns
    )
    cpdef settle(self, unsigned long long tag, bint multiple, int count, unsigned long long now_ns)
    cdef object _apply(self, unsigned long long tag, bint multiple, int count, unsigned long long now_ns)
    cdef long long _settled(
        self, OpenMessages messages, unsigned long long tag, bint multiple, unsigned long long now_ns, bint are_publishes
    )
    cdef long long _settled_range(
        self, OpenMessages messages, unsigned long long tag, long long tags, unsigned long long now_ns, bint are_publishes
    )

# What C sees of `message_counts`: plain integers, which nothing can hold in turn.

cimport cython


@cython.final
cdef class MessageCounts:
    cdef public long long published
    cdef public long long confirmed
    cdef public long long returned
    cdef public long long dropped
    cdef public long long routed
    cdef public long long delivered
    cdef public long long delivered_no_ack
    cdef public long long got
    cdef public long long got_no_ack
    cdef public long long got_empty
    cdef public long long redelivered
    cdef public long long acked

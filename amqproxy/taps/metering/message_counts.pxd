# What C sees of `message_counts`.

cimport cython

from amqproxy.taps.metering.distribution cimport Distribution


@cython.final
cdef class MessageCounts:
    cdef readonly object values
    cdef long long[::1] _values
    cdef readonly Distribution confirm_seconds
    cdef readonly Distribution ack_seconds
    cdef readonly Distribution published_bytes
    cdef readonly Distribution delivered_bytes
    cdef readonly dict requests

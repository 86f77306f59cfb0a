# What C sees of `transfer_headers`.

cimport cython

from amqproxy.broker.message cimport Message


@cython.final
cdef class TransferHeaders:
    cdef dict _known
    cdef bytes _content_header
    cdef str _exchange
    cdef str _routing_key
    cdef bint _is_redelivered
    cdef bytes _last

    cpdef bytes of(self, Message message, bytes content_header, double expires_at, bint is_redelivered)

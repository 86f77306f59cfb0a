# What C sees of `transfer_headers`.

cimport cython

from amqproxy.broker.amqp010.header_shape cimport HeaderShape
from amqproxy.broker.message cimport Message


@cython.final
cdef class TransferHeaders:
    cdef dict _known
    cdef HeaderShape _shape
    cdef str _exchange
    cdef str _routing_key
    cdef bint _is_redelivered

    cpdef bytes of(self, Message message, bytes content_header, double expires_at, bint is_redelivered)
    cdef HeaderShape _find(self, Message message, bytes content_header, bint is_redelivered)

# What C sees of `acknowledgement_run`.

cimport cython

from amqproxy.compiled.byte_access cimport long_at, long_long_at, put_number, short_at
from amqproxy.taps.metering.amqp091.message_run cimport are_alike_8


@cython.final
cdef class AcknowledgementRun:
    cdef int number
    cdef int method
    cdef int flags
    cdef long long count
    cdef unsigned long long tag

    cdef Py_ssize_t take(
        self, bint is_server, const unsigned char *p, Py_ssize_t at, Py_ssize_t length
    ) noexcept nogil
    cdef Py_ssize_t condense(self, unsigned char *out, Py_ssize_t at) noexcept nogil
    cdef Py_ssize_t restore(self, const unsigned char *p, Py_ssize_t at, Py_ssize_t length) noexcept nogil

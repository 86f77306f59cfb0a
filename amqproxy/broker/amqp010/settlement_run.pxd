# What C sees of `settlement_run`.

cimport cython

from amqproxy.amqp010.command_ids cimport position_of
from amqproxy.amqp010.frame cimport Frame
from amqproxy.broker.amqp010.header_shape cimport is_alike
from amqproxy.compiled.byte_access cimport long_at


@cython.final
cdef class SettlementRun:
    cdef readonly int accepts
    cdef long long _completed, _completed_to
    cdef long long _accepted, _accepted_to

    cpdef Py_ssize_t gather(self, list[Frame] frames, Py_ssize_t place, long long sent) except -1
    cdef bint _add(self, Frame frame, long long sent) except -1

# What C sees of `session`. The rest is in `__dict__`.

cimport cython

from amqproxy.amqp010.assembly cimport Assembly
from amqproxy.amqp010.command_ids cimport id_of, position_of
from amqproxy.amqp010.frame cimport Frame
from amqproxy.broker.amqp010.completions cimport Completions
from amqproxy.broker.amqp010.session_deliveries cimport SessionDeliveries
from amqproxy.broker.amqp010.session_publisher cimport SessionPublisher
from amqproxy.broker.amqp010.session_sender cimport SessionSender
from amqproxy.broker.amqp010.settlement_run cimport SettlementRun


@cython.final
cdef class BrokerSession:
    cdef dict __dict__
    cdef public object connection
    cdef public object transaction
    cdef readonly SessionSender sender
    cdef readonly Completions completions
    cdef readonly SessionDeliveries deliveries
    cdef readonly SessionPublisher publisher
    cdef object _next
    cdef object _seen

    cpdef receive(self, Assembly assembly, double now)
    cpdef bint receive_known(self, Frame command, Frame header, Frame body, double now) except -1
    cpdef Py_ssize_t receive_settlements(
        self, SettlementRun run, list[Frame] frames, Py_ssize_t place, double now
    ) except -1
    cdef _execute(self, Assembly assembly, object command, long long position, double now)
    cdef bint _accept(self, object accept, double now) except -1
    cpdef take_completed(self, object completed, double now)
    cdef list[range] _ranges(self, object commands, long long near)
    cdef _take_completed(self, list[range] ranges, double now)
    cdef _complete(self, long long start, long long stop)

# What C sees of `connection`. The rest is in `__dict__`.

cimport cython

from amqproxy.amqp010.assembly cimport Assembly, AssemblyReader
from amqproxy.amqp010.frame cimport Frame
from amqproxy.amqp010.frame_reader cimport FrameReader
from amqproxy.broker.amqp010.session cimport BrokerSession
from amqproxy.broker.amqp010.settlement_run cimport SettlementRun
from amqproxy.broker.connections.output cimport OutputBuffer
from amqproxy.broker.work cimport Quantum

cdef object _OPEN
cdef int _TRANSFER, _ACCEPT, _COMPLETED, _BODY, _WHOLE_SEGMENT, _FIRST, _LAST


@cython.final
cdef class Amqp010Connection:
    cdef dict __dict__
    cdef readonly object broker
    cdef public OutputBuffer output
    cdef public dict sessions
    cdef public bint is_over
    cdef public bint is_blocked
    cdef object _stage
    cdef dict _assemblies
    cdef dict _turns
    cdef list _unread
    cdef Py_ssize_t _place
    cdef bint _is_busy
    cdef Quantum _quantum
    cdef FrameReader _reader
    cdef SettlementRun _settlements

    cdef _take(self, list[Frame] frames, double now)
    cdef _take_control(self, Assembly assembly, double now)
    cdef bint _take_transfer(self, Frame command, Frame header, Frame body, double now) except -1
    cpdef to_end_turn(self, object session)
    cpdef is_costly(self)
    cdef _end_turns(self)

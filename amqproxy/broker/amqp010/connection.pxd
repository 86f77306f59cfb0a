# What C sees of `connection`. The rest is in `__dict__`.

from amqproxy.amqp010.assembly cimport Assembly, AssemblyReader
from amqproxy.amqp010.frame cimport Frame
from amqproxy.amqp010.frame_reader cimport FrameReader
from amqproxy.broker.amqp010.session cimport BrokerSession
from amqproxy.broker.amqp010.settlement_run cimport SettlementRun
from amqproxy.broker.connections.client_connection cimport ClientConnection

cdef object _OPEN
cdef int _TRANSFER, _ACCEPT, _COMPLETED, _BODY, _WHOLE_SEGMENT, _FIRST, _LAST


cdef class Amqp010Connection(ClientConnection):
    cdef object _stage
    cdef dict _assemblies
    cdef dict _turns
    cdef FrameReader _reader
    cdef SettlementRun _settlements

    cdef _take(self, list frames, double now)
    cdef _take_control(self, Assembly assembly, double now)
    cdef bint _take_transfer(self, Frame command, Frame header, Frame body, double now) except -1
    cpdef to_end_turn(self, object session)
    cpdef is_costly(self)
    cdef _end_turn(self)

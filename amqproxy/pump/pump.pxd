# What C sees of `pump`.

cimport cython
from libc.errno cimport errno

from amqproxy.pump.frame_scanner cimport FrameScanner
from amqproxy.pump.journal cimport Journal
from amqproxy.pump.latency_counts cimport LatencyCounts
from amqproxy.pump.pump_message cimport ACKNOWLEDGED, BEGIN, RECALL, RETURNED, STOP, PumpMessage
from amqproxy.pump.pumped_connection cimport Pumped, PumpedConnection, PumpedPointer
from amqproxy.pump.relay_loop cimport RelayLoop
from amqproxy.pump.system_calls cimport (
    AMQPROXY_HAS_EPOLL, VoidPointer, close_descriptor, load, new_pipe, read_pipe, store, wait_for, write_pipe,
)


@cython.final
cdef class Pump:
    cdef bint _is_open
    cdef int _commands[2]
    cdef int _returns[2]
    cdef unsigned long long _recalls
    cdef unsigned long long _answered
    cdef long long _most_frames
    cdef dict _scanners
    cdef Journal _journal
    cdef LatencyCounts _latencies
    cdef RelayLoop _loop
    cdef set _connections
    cdef object _arrived
    cdef list _asked
    cdef readonly bint is_threaded

    cdef object _command(self, Pumped *connection, long long kind)
    cdef object _read_returns(self)
    cdef object _finish(self, PumpedConnection connection)
    cdef bint _turns_itself(self) noexcept

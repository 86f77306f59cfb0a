# What C sees of `frame_scanner`.

cimport cython

from amqproxy.compiled.byte_access cimport long_at, long_long_at
from amqproxy.pump.frame_counts cimport FrameCounts
from amqproxy.pump.pumped_connection cimport (
    ChannelContentPointer, DirectionPointer, PumpedDirection, PumpedPointer, channel_of,
)
from amqproxy.pump.system_calls cimport ConstBytePointer, CounterPointer, IntPointer, add, put, put_int


@cython.final
cdef class FrameScanner:
    cdef Py_ssize_t _largest
    cdef unsigned char _keeps[2][256]
    cdef const unsigned char *_index_of
    cdef const unsigned char *_carries
    cdef object _tables
    cdef FrameCounts _counts

    cdef Py_ssize_t scan(self, PumpedDirection *direction, const unsigned char *p, Py_ssize_t length, int *reason) noexcept nogil

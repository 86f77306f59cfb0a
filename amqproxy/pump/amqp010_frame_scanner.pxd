# What C sees of `amqp010_frame_scanner`.

cimport cython

from amqproxy.amqp010.frame_reader cimport next_state
from amqproxy.pump.frame_counts cimport FrameCounts
from amqproxy.pump.pumped_connection cimport (
    ChannelContentPointer, DirectionPointer, PumpedDirection, PumpedPointer, channel_of,
)
from amqproxy.pump.system_calls cimport ConstBytePointer, CounterPointer, IntPointer, add, put_int


@cython.final
cdef class Amqp010FrameScanner:
    cdef const unsigned char *_index_of
    cdef const unsigned char *_segments
    cdef const unsigned char *_carries
    cdef const unsigned char *_keeps
    cdef object _tables
    cdef FrameCounts _counts

    cdef Py_ssize_t scan(self, PumpedDirection *direction, const unsigned char *p, Py_ssize_t length, int *reason) noexcept nogil

# What C sees of `frame_scanner`.

cimport cython

from amqproxy.amqp010.frame_reader cimport next_state
from amqproxy.compiled.byte_access cimport short_at
from amqproxy.pump.frame_scanner cimport FrameScanner
from amqproxy.pump.pumped_connection cimport (
    ChannelContentPointer, DirectionPointer, PumpedDirection, PumpedPointer, channel_of,
)
from amqproxy.pump.system_calls cimport (
    BytePointer, ConstBytePointer, CounterPointer, IntPointer, add, copy_bytes, put_int,
)
from amqproxy.taps.metering.amqp010.message_run cimport Amqp010MessageRun


@cython.final
cdef class Amqp010FrameScanner(FrameScanner):
    cdef const unsigned char *_index_of
    cdef const unsigned char *_segments
    cdef const unsigned char *_carries
    cdef const unsigned char *_keeps
    cdef object _tables
    cdef Amqp010MessageRun _run

    cdef Py_ssize_t _scan(
        self, PumpedDirection *direction, const unsigned char *p, Py_ssize_t length, int *reason
    ) noexcept nogil
    cdef Py_ssize_t _condense(
        self, bint is_server, unsigned char *out, const unsigned char *data, Py_ssize_t size
    ) noexcept nogil

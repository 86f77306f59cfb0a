# What C sees of `frame_scanner`.

cimport cython

from amqproxy.compiled.byte_access cimport long_at, long_long_at
from amqproxy.pump.frame_scanner cimport FrameScanner
from amqproxy.pump.pumped_connection cimport (
    ChannelContent, ChannelContentPointer, DirectionPointer, PumpedDirection, PumpedPointer, channel_of,
)
from amqproxy.pump.system_calls cimport (
    BytePointer, ConstBytePointer, CounterPointer, IntPointer, add, copy_bytes, put, put_int,
)
from amqproxy.taps.metering.amqp091.acknowledgement_run cimport AcknowledgementRun
from amqproxy.taps.metering.amqp091.message_run cimport MessageRun


@cython.final
cdef class Amqp091FrameScanner(FrameScanner):
    cdef Py_ssize_t _largest
    cdef unsigned char _keeps[2][256]
    cdef const unsigned char *_index_of
    cdef const unsigned char *_carries
    cdef object _tables
    cdef MessageRun _run
    cdef AcknowledgementRun _acknowledgements
    cdef long long _taken

    cdef Py_ssize_t _take_run(
        self,
        PumpedDirection *direction,
        ChannelContent *channel,
        int index,
        const unsigned char *p,
        Py_ssize_t position,
        Py_ssize_t length,
    ) noexcept nogil
    cdef Py_ssize_t _condense(
        self, bint is_server, int index, unsigned char *out, Py_ssize_t written, const unsigned char *p
    ) noexcept nogil

# What C sees of `frame_scanner`.

cimport cython
from libc.stdlib cimport calloc, free

from amqproxy.amqp091.tally cimport Tally
from amqproxy.pump.pumped_connection cimport ChannelContentPointer, DirectionPointer, PumpedDirection, PumpedPointer
from amqproxy.pump.system_calls cimport ConstBytePointer, CounterPointer, IntPointer, add, look, put, put_int


@cython.final
cdef class FrameScanner:
    cdef Py_ssize_t _largest
    cdef unsigned char _keeps[2][256]
    cdef const unsigned char *_index_of
    cdef const unsigned char *_carries
    cdef object _tables
    cdef unsigned long long *_frames
    cdef unsigned long long *_bytes
    cdef unsigned long long *_collected_frames
    cdef unsigned long long *_collected_bytes

    cdef Py_ssize_t scan(self, PumpedDirection *direction, const unsigned char *p, Py_ssize_t length, int *reason) noexcept nogil

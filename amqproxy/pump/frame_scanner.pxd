# What C sees of `frame_scanner`.

cimport cython

from amqproxy.pump.frame_counts cimport FrameCounts
from amqproxy.pump.pumped_connection cimport DirectionPointer, PumpedDirection
from amqproxy.pump.system_calls cimport BytePointer, ConstBytePointer, IntPointer


cdef class FrameScanner:
    cdef FrameCounts _counts
    cdef object _tallies
    cdef Py_ssize_t written

    cdef Py_ssize_t scan(
        self, PumpedDirection *direction, const unsigned char *p, Py_ssize_t length, unsigned char *out, int *reason
    ) noexcept nogil

# What C sees of `packets`.

cimport cython

from amqproxy.capture.pcap cimport Packet


@cython.final
cdef class TCPSegment:
    cdef readonly object ts_ns
    cdef readonly bytes flow
    cdef readonly long long seq
    cdef readonly long long ack
    cdef readonly int flags
    cdef readonly bytes payload
    cdef readonly long long missing
    cdef readonly str leg
    cdef readonly tuple comments

    @staticmethod
    cdef TCPSegment _of(
        object ts_ns,
        bytes flow,
        long long seq,
        long long ack,
        int flags,
        bytes payload,
        long long missing,
        str leg,
        object comments,
    )

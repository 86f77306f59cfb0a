# What C sees of `recording_encoder`.

cimport cython

from amqproxy.capture.amqp091.frame_cuts cimport FrameCutter
from amqproxy.capture.packet_pieces cimport PacketPieces
from amqproxy.capture.synthetic_tcp cimport SyntheticTCP


@cython.final
cdef class RecordingEncoder:
    cdef readonly PacketPieces made
    cdef tuple _legs
    cdef bint _is_once
    cdef long long _body
    cdef str _filter
    cdef dict _sessions
    cdef dict _interfaces
    cdef int _file
    cdef long long _packets_before
    cdef FrameCutter _cutter

    cdef _Leg _leg(self, entry, str name)
    cdef _Session _session(self, connection)


@cython.final
cdef class _Interface:
    cdef readonly int number
    cdef public long long dropped
    cdef readonly long long packets
    cdef readonly long long start_ns
    cdef readonly list shown


@cython.final
cdef class _Session:
    cdef bint has_login
    cdef readonly dict legs
    cdef str shown_name


@cython.final
cdef class _Leg:
    cdef str _name
    cdef _Session _session
    cdef object _connection
    cdef _Interface _interface
    cdef bint _is_open
    cdef int _file
    cdef tuple _flags
    cdef tuple _options
    cdef dict _lost
    cdef bytes snapshot
    cdef SyntheticTCP _tcp

    cdef object send(
        self,
        unsigned long long ts_ns,
        bint is_client,
        bytes data,
        comments,
        cuts,
        int file,
        PacketPieces made,
    )

# What C sees of `packet_pieces`.

cimport cython
from libc.string cimport memcpy

from amqproxy.capture.synthetic_tcp cimport SyntheticTCP


@cython.final
cdef class PacketPieces:
    cdef readonly Py_ssize_t size
    cdef readonly Py_ssize_t count
    cdef list _pieces
    cdef bytearray _room
    cdef object _view
    cdef Py_ssize_t _begun
    cdef Py_ssize_t _at

    cpdef object add_data(
        self,
        unsigned int interface,
        unsigned long long ts_ns,
        SyntheticTCP tcp,
        int sender,
        bytes data,
        Py_ssize_t start,
        Py_ssize_t kept,
        Py_ssize_t end,
        bytes options,
    )
    cdef object _complete(
        self,
        unsigned int interface,
        unsigned long long ts_ns,
        Py_ssize_t at,
        bytes data,
        Py_ssize_t start,
        Py_ssize_t kept,
        Py_ssize_t end,
        bytes options,
    )
    cdef object _reserve(self, Py_ssize_t size)
    cdef object _end_piece(self)

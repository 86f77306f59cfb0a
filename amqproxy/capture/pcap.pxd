# What C sees of `pcap`.

cimport cython


@cython.final
cdef class Packet:
    cdef readonly object ts_ns
    cdef readonly unsigned int link_type
    cdef bytes _buffer
    cdef Py_ssize_t _start
    cdef Py_ssize_t _end
    cdef readonly long long original_length
    cdef readonly str leg
    cdef readonly tuple comments

    @staticmethod
    cdef Packet _of(
        object ts_ns,
        unsigned int link_type,
        bytes buffer,
        Py_ssize_t start,
        Py_ssize_t end,
        long long original_length,
        str leg,
        object comments,
    )

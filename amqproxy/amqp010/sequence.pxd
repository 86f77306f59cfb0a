# What C sees of `sequence`.

cimport cython


@cython.final
cdef class SequenceSet:
    cdef bytes _data
    cdef tuple _ranges

    @staticmethod
    cdef SequenceSet _of(bytes data)

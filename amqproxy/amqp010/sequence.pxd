# What C sees of `sequence`.

cimport cython


@cython.final
cdef class SequenceSet:
    cdef bytes _data
    cdef tuple _ranges
    cdef unsigned int _first
    cdef unsigned int _last

    @staticmethod
    cdef SequenceSet _of(bytes data)
    @staticmethod
    cdef SequenceSet _of_one(unsigned int first, unsigned int last)

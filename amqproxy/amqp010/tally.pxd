# What C sees of `tally`.

cimport cython


@cython.final
cdef class Tally:
    cdef readonly object frames
    cdef readonly object byte_counts
    cdef unsigned long long[::1] _frames
    cdef unsigned long long[::1] _byte_counts

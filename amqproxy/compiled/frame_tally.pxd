# What C sees of `frame_tally`.


cdef class FrameTally:
    cdef readonly object frames
    cdef readonly object byte_counts
    cdef unsigned long long[::1] _frames
    cdef unsigned long long[::1] _byte_counts

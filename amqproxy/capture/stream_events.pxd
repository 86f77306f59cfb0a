# What C sees of `stream_events`.

cimport cython


@cython.final
cdef class Data:
    cdef readonly long long stream
    cdef readonly int direction
    cdef readonly object ts_ns
    cdef readonly bytes data
    cdef readonly tuple comments

    @staticmethod
    cdef Data _of(long long stream, int direction, object ts_ns, bytes data, object comments)

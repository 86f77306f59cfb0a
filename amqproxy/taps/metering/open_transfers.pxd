# What C sees of `open_transfers`.

cimport cython


@cython.final
cdef class TimedRun:
    cdef long long first
    cdef long long last
    cdef double time
    cdef bint is_timed


@cython.final
cdef class OpenTransfers:
    cdef list _runs
    cdef readonly long long count

    cpdef Py_ssize_t add(self, long long position, double now) except -1
    cpdef list settle(self, long long first, long long last)
    cdef Py_ssize_t _first_from(self, long long position) except -1
    cpdef Py_ssize_t forget_excess(self) except -1
    cdef long long _bound(self) except -1

# What C sees of `open_transfers`.

cimport cython

from amqproxy.taps.metering.distribution cimport Distribution


@cython.final
cdef class TimedRun:
    cdef long long first
    cdef long long last
    cdef double time
    cdef bint is_timed


@cython.final
cdef class OpenTransfers:
    cdef list _runs
    cdef object _room
    cdef readonly long long count
    cdef readonly long long untimed
    cdef readonly bint has_forgotten

    cpdef add(self, long long first, double now, long long count=*)
    cpdef Py_ssize_t settle(self, long long first, long long last, double now, Distribution seconds) except -1
    cdef Py_ssize_t _first_from(self, long long position) except -1
    cdef object _bound(self)

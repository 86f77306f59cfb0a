# What C sees of `distribution`.

cimport cython


@cython.final
cdef class Distribution:
    cdef readonly object bounds
    cdef readonly object counts
    cdef readonly double total
    cdef double[::1] _bounds
    cdef unsigned long long[::1] _counts
    cdef Py_ssize_t _size

    cpdef void observe(self, double value, long long count=*) noexcept

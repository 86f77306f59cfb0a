# What C sees of `pass_cache`.

cimport cython


cdef class Credit:
    cdef public double left
    cdef public double spent


@cython.final
cdef class CachedPass:
    cdef readonly bytes payload
    cdef readonly tuple allowances
    cdef readonly bint if_plain
    cdef readonly long long largest
    cdef public long long count
    cdef bytes _encoded
    cdef Py_ssize_t _size

    cdef bint _may_pass(self, Py_ssize_t handed_over, list spending) noexcept
    cpdef take_back(self)


@cython.final
cdef class PassCache:
    cdef dict _passes
    cdef list _recent

    cdef CachedPass _find(self, const unsigned char *p, Py_ssize_t start, Py_ssize_t end)

# What C sees of `unsent_bytes`.

cimport cython


@cython.final
cdef class UnsentBytes:
    cdef public long long count
    cdef public long long most

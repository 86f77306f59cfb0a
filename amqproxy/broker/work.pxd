# What C sees of `work`.

cimport cython


@cython.final
cdef class Quantum:
    cdef public long long left
    cdef public long long step
    cdef object _clock
    cdef double _seconds
    cdef double _ends
    cdef double _usual_end

    cpdef bint spend(self, long long operations)
    cpdef bint is_over(self)
    cpdef hasten(self)

# What C sees of `command_ids`.

cimport cython

cdef long long _MASK, _HALF

cpdef long long id_of(long long position)
cpdef long long position_of(long long command_id, long long near)

@cython.final
cdef class CommandIds:
    cdef readonly long long count
    cdef list _starts
    cdef list _stops

    cpdef extend(self, long long start, long long stop)
    cdef bint _is_only(self, long long start, long long stop)
    cpdef move(self, long long start, long long stop, CommandIds to)

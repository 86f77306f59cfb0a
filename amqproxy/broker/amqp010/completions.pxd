# What C sees of `completions`.

cimport cython

from amqproxy.amqp010.command_ids cimport CommandIds


@cython.final
cdef class Completions:
    cdef public bint is_new
    cdef CommandIds _completed
    cdef bint _is_many
    cdef CommandIds _unreported
    cdef dict _incomplete
    cdef object _begun
    cdef object _syncs
    cdef long long _accepts_next
    cdef CommandIds _to_accept
    cdef dict _accepted_along
    cdef CommandIds _accepted
    cdef CommandIds _known

    cpdef complete(self, long long start, long long stop)
    cpdef accept(self, long long position, CommandIds earlier=*)
    cdef _end(self, long long start, long long stop)
    cdef _note(self, long long start, long long stop)

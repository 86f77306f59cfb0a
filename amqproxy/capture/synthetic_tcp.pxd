# What C sees of `synthetic_tcp`.

cimport cython


@cython.final
cdef class _End:
    cdef unsigned char head[60]
    cdef int ip_size
    cdef bint is_ipv4
    cdef unsigned int checksum
    cdef unsigned int next
    cdef int segments
    cdef long long size
    cdef long long skipped

    cdef inline void advance(self, long long size) noexcept


@cython.final
cdef class SyntheticTCP:
    cdef readonly object client
    cdef readonly object server
    cdef _End _of_client
    cdef _End _of_server

    cdef inline _End _end(self, int sender)
    cdef void _note_sent(self, int sender, long long size) noexcept
    cpdef bytes acknowledgement(self, int sender)
    cdef inline bint _owes_acknowledgement(self, int sender) noexcept
    cpdef bytes acknowledge(self, int by)
    cdef inline void _note_acknowledged(self, int sender) noexcept
    cdef bytes _header(self, int sender, int flags, long long size, bytes options=*)
    cdef Py_ssize_t _write_header(
        self, unsigned char *out, Py_ssize_t at, int sender, int flags, long long size, int option_size
    ) noexcept

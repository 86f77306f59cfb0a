# What C sees of `frame_cuts`: the arrays have the sizes of GROUP and of three times MOST_CUTS.

cimport cython


@cython.final
cdef class FrameCutter:
    cdef Py_ssize_t _most
    cdef long long _body
    cdef bint _finds_secrets
    cdef Py_ssize_t _at
    cdef Py_ssize_t _start
    cdef Py_ssize_t _count
    cdef Py_ssize_t _cuts[3072]
    cdef const unsigned char *_data[256]
    cdef Py_ssize_t _sizes[256]
    cdef Py_ssize_t _counts[256]

    cdef object _find_in(self, pieces, list found)
    cdef Py_ssize_t _look(self, Py_ssize_t number, Py_ssize_t count) noexcept nogil
    cdef int _cut(self, const unsigned char *p, Py_ssize_t size) noexcept nogil
    cdef bint _add(self, Py_ssize_t start, Py_ssize_t kept, Py_ssize_t end, Py_ssize_t at) noexcept nogil

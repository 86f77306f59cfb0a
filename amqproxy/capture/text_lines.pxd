# What C sees of `text_lines`.

cimport cython

from amqproxy.compiled.byte_access cimport field_size_at, long_at, long_long_at, put_bytes, put_digits


@cython.final
cdef class TextLines:
    cdef Py_ssize_t _body
    cdef bint _has_both_legs
    cdef bytearray _buffer
    cdef Py_ssize_t _at

    cdef Py_ssize_t _reserve(self, Py_ssize_t room) except -1
    cdef Py_ssize_t _add(self, bytes head, bytes data, Py_ssize_t start, Py_ssize_t end) except -1
    cdef object _add_odd(self, passed, frame)
    cdef object _add_records(self, passed)

# What C sees of `json_lines`.

cimport cython
from libc.string cimport memcpy

from amqproxy.amqp010.frame cimport Frame as Amqp010Frame
from amqproxy.capture.amqp010.json_fields cimport put_arguments, put_properties
from amqproxy.compiled.byte_access cimport (
    field_size_at,
    long_at,
    long_long_at,
    put_bytes,
    put_digits,
    put_signed,
    signed_long_long_at,
)
from amqproxy.capture.json_text cimport put_text


@cython.final
cdef class JSONLines:
    cdef Py_ssize_t _body
    cdef bint _has_both_legs
    cdef bytearray _buffer
    cdef Py_ssize_t _at
    cdef dict _heads

    cdef Py_ssize_t _add_of_0_10(self, passed) except -1
    cdef Py_ssize_t _add_frame_of_0_10(self, Amqp010Frame frame, object command_id, bytes behind) except -1
    cdef object _head(self, passed)
    cdef Py_ssize_t _begin(self, long long ts_ns, bytes before) except -1
    cdef Py_ssize_t _begin_alike(self, Py_ssize_t model, Py_ssize_t size) except -1
    cdef Py_ssize_t _reserve(self, Py_ssize_t room) except -1
    cdef Py_ssize_t _add(self, bytes data, Py_ssize_t start, Py_ssize_t end, bytes behind) except -1
    @staticmethod
    cdef Py_ssize_t _arguments(
        unsigned char *out, Py_ssize_t at, bytes data, Py_ssize_t start, Py_ssize_t end, int index
    ) except -2
    @staticmethod
    cdef Py_ssize_t _headers(
        unsigned char *out, Py_ssize_t at, bytes data, Py_ssize_t position, Py_ssize_t end
    ) except -2
    cdef object _add_odd(self, passed, frame)
    cdef object _add_records(self, passed)

# What C sees of `json_lines`.

cimport cython

from amqproxy.amqp010.frame cimport Frame as Amqp010Frame
from amqproxy.capture.amqp010.json_fields cimport put_value
from amqproxy.capture.frame_writer cimport FrameLines, method_index, number_field
from amqproxy.capture.json_text cimport put_text
from amqproxy.compiled.byte_access cimport (
    long_at,
    long_long_at,
    put_bytes,
    put_digits,
    put_signed,
    signed_long_long_at,
)


@cython.final
cdef class JSONLines(FrameLines):
    cdef dict _heads
    cdef bytes _behind

    cdef Py_ssize_t _put_size(self, Py_ssize_t at, bytes data, Py_ssize_t start, Py_ssize_t end, bint is_body) except -1
    cdef Py_ssize_t _put_key(self, Py_ssize_t at, Py_ssize_t field) except -2
    cdef Py_ssize_t _add_packed_object(self, bytes data, Py_ssize_t start, Py_ssize_t end, int kind, int index) except -1
    cdef Py_ssize_t _add_object(self, bytes data, Py_ssize_t start, Py_ssize_t end, int index) except -1


cdef Py_ssize_t put_table(
    unsigned char *out, Py_ssize_t at, bytes data, Py_ssize_t position, Py_ssize_t end, int depth, bint are_named
) except -2
cdef long long value_size(const unsigned char *p, Py_ssize_t position, Py_ssize_t end) noexcept

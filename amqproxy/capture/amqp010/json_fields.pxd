# What C sees of `json_fields`, and of others in it.

from amqproxy.compiled.byte_access cimport (
    long_at,
    long_long_at,
    put_bytes,
    put_digits,
    put_signed,
    signed_long_long_at,
)
from amqproxy.capture.json_text cimport put_text


cdef Py_ssize_t put_value(
    unsigned char *out, Py_ssize_t at, bytes data, Py_ssize_t position, long long size, int code, int depth
) except -2
cdef Py_ssize_t put_map(
    unsigned char *out, Py_ssize_t at, bytes data, Py_ssize_t position, Py_ssize_t end, int depth, bint are_named
) except -2
cdef Py_ssize_t put_uuid(unsigned char *out, Py_ssize_t at, const unsigned char *p, Py_ssize_t position) noexcept
cdef long long value_size_at(const unsigned char *p, Py_ssize_t position, Py_ssize_t end, int code) noexcept

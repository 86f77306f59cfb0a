# What C sees of `frame_writer`.

from libc.string cimport memcpy

from amqproxy.amqp010.frame cimport Frame as Amqp010Frame
from amqproxy.capture.amqp010.json_fields cimport value_size_at
from amqproxy.compiled.byte_access cimport field_size_at, long_at, put_bytes


cdef class FrameWriter:
    cdef Py_ssize_t _body

    cdef bint _begin(self, passed) except -1
    cdef object _end(self)
    cdef object _add_records(self, passed)
    cdef Py_ssize_t _add(self, bytes data, Py_ssize_t start, Py_ssize_t end) except -1
    cdef Py_ssize_t _add_amqp010(self, Amqp010Frame frame, object command_id) except -1
    cdef Py_ssize_t _arguments(self, Py_ssize_t at, bytes data, Py_ssize_t position, Py_ssize_t end, int index) except -2
    cdef Py_ssize_t _properties(self, Py_ssize_t at, bytes data, Py_ssize_t position, Py_ssize_t end) except -2
    cdef Py_ssize_t _field(
        self, Py_ssize_t at, Py_ssize_t field, int code, bytes data, Py_ssize_t position, Py_ssize_t size
    ) except -2
    cdef Py_ssize_t _packed_arguments(
        self, Py_ssize_t at, bytes data, Py_ssize_t position, Py_ssize_t end, int kind, int index
    ) except -2
    cdef Py_ssize_t _packed_properties(self, Py_ssize_t at, bytes data, Py_ssize_t position, Py_ssize_t end) except -2
    cdef Py_ssize_t _packed(
        self, Py_ssize_t at, bytes data, Py_ssize_t position, Py_ssize_t end, bytes layout, bytes shown, Py_ssize_t first
    ) except -2
    cdef Py_ssize_t _packed_field(
        self, Py_ssize_t at, Py_ssize_t field, int code, bytes data, Py_ssize_t position, Py_ssize_t size
    ) except -2


cdef class FrameLines(FrameWriter):
    cdef bint _has_both_legs
    cdef bytearray _buffer
    cdef unsigned char *_out
    cdef Py_ssize_t _at
    cdef bytearray _head
    cdef Py_ssize_t _head_size
    cdef tuple _keys

    cdef Py_ssize_t _reserve(self, Py_ssize_t room) except -1
    cdef Py_ssize_t _start(self, Py_ssize_t room) except -1
    cdef bytes _line(self, record)


cdef unsigned long long number_field(const unsigned char *p, Py_ssize_t position, Py_ssize_t size) noexcept
cdef int method_index(const unsigned char *p, Py_ssize_t start) noexcept

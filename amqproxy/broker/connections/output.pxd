# What C sees of `output`.

cimport cython
from cpython.bytearray cimport PyByteArray_Resize
from libc.string cimport memcpy

from amqproxy.broker.unsent_bytes cimport UnsentBytes

cdef Py_ssize_t _SHARE


@cython.final
cdef class OutputBuffer:
    cdef UnsentBytes _all
    cdef public Py_ssize_t frame_max
    cdef readonly Py_ssize_t waiting
    cdef public bint has_room
    cdef Py_ssize_t _taken
    cdef object _wake
    cdef list _pieces
    cdef bytearray _data
    cdef Py_ssize_t _used
    cdef Py_ssize_t _usual

    cpdef put(self, bytes data)
    cpdef deliver(
        self, int channel, bytes consumer_tag, unsigned long long delivery_tag, bint is_redelivered, str exchange,
        str routing_key, bytes header, bytes body
    )
    cpdef content(self, int channel, bytes header, bytes body)
    cpdef list take_pieces(self)
    cpdef bint is_over(self, long long most)
    cdef bint _is_full(self)
    cdef _added(self, Py_ssize_t before)
    cdef Py_ssize_t _room_for(self, Py_ssize_t size) except -1
    cdef _lay_content(self, int channel, bytes header, bytes body)
    cdef _lay_body(self, int channel, bytes body)
    cdef _lay_aside(self, bytes data)
    cdef _cut(self)


cpdef bytes short_string(str text)

# What C sees of `frames`: the types of what is on the way of every frame.

cimport cython


@cython.final
cdef class Tally:
    cdef readonly object frames
    cdef readonly object octets
    cdef unsigned long long[::1] _frames
    cdef unsigned long long[::1] _octets


@cython.final
cdef class Frame:
    cdef bytes _octets
    cdef Py_ssize_t _start
    cdef Py_ssize_t _end
    cdef readonly long long offset
    cdef readonly int kind
    cdef readonly int channel
    cdef readonly int index
    cdef readonly bint is_in_order
    cdef readonly unsigned long long ordinal
    cdef object _decoded

    cdef bytes _raw(self)
    cpdef bytes payload_bytes(self)
    cpdef Py_ssize_t length(self)
    cpdef bint is_as(self, bytes raw)
    cpdef unsigned long long long_long_at(self, Py_ssize_t place)
    cpdef int byte_at(self, Py_ssize_t place)
    cpdef unsigned long long announced(self)
    cdef object _decode_method(self)
    cdef object _decode_header(self)


@cython.final
cdef class ContentState:
    cdef readonly int expects
    cdef readonly int index
    cdef readonly unsigned long long remaining
    cdef readonly unsigned long long contents
    cdef public bint is_watched
    cdef readonly bint is_shown

    cdef inline int _step(self, const unsigned char *p, int kind, int index, long long size, Py_ssize_t position) noexcept


cdef class Credit:
    cdef public double left
    cdef public double spent


@cython.final
cdef class CachedPass:
    cdef readonly bytes payload
    cdef readonly tuple allowances
    cdef readonly bint if_plain
    cdef public long long count
    cdef bytes _octets

    cdef bint _may_pass(self, Py_ssize_t handed_over, list spending) noexcept
    cpdef take_back(self)


@cython.final
cdef class PassCache:
    cdef dict _passes
    cdef list _recent

    cdef CachedPass _find(self, const unsigned char *p, Py_ssize_t start, Py_ssize_t end)


@cython.final
cdef class FrameReader:
    cdef readonly long long frame_max
    cdef readonly long long offset
    cdef readonly object error
    cdef readonly dict lanes
    cdef readonly Tally tally
    cdef public bint lends
    cdef public Py_ssize_t quantum
    cdef readonly bint is_paused
    cdef public PassCache unseen
    cdef public list spending
    cdef list _splices
    cdef Py_ssize_t _next_splice
    cdef long long _payload_max
    cdef bytes _wants
    cdef bint _wants_content
    cdef bytearray _tail
    cdef object _taken
    cdef bytes _head
    cdef object _data
    cdef bytes _refused
    cdef Py_ssize_t _start
    cdef Py_ssize_t _end
    cdef Py_ssize_t _missing
    cdef ContentState _recent
    cdef int _recent_channel

    cpdef list feed(self, bytes data)
    cpdef list resume(self)
    cdef object _scan_on(self, list frames)
    cdef Py_ssize_t _copy(self, unsigned char *out, Py_ssize_t at, Py_ssize_t start, Py_ssize_t end) except -1
    cdef Py_ssize_t _scan(self, bytes data, Py_ssize_t start, Py_ssize_t length, list frames) except -1

# What C sees of `open_messages`.

cimport cython

from amqproxy.taps.metering.distribution cimport Distribution


@cython.final
cdef class OpenMessages:
    cdef readonly long long count
    cdef readonly unsigned long long last
    cdef readonly long long untimed
    cdef readonly long long forgotten
    cdef unsigned long long _first
    cdef bytearray _bits
    cdef Py_ssize_t _capacity
    cdef bytearray _reads
    cdef Py_ssize_t _most_reads
    cdef Py_ssize_t _oldest_read
    cdef Py_ssize_t _read_count

    cpdef bint is_open(self, unsigned long long tag) noexcept
    cpdef add(self, unsigned long long tag, unsigned long long now_ns, long long count=*)
    cdef long long _add_following(self, long long most) noexcept
    cdef object _repeat(self, unsigned long long tag)
    cdef object _make_room(self, unsigned long long tag)
    cpdef long long settle(self, unsigned long long tag, bint multiple, unsigned long long now_ns, Distribution seconds)
    cpdef long long settle_range(
        self, unsigned long long tag, unsigned long long until, unsigned long long now_ns, Distribution seconds
    )
    cpdef long long clear(self)
    cdef unsigned long long _next_open(self, unsigned long long tag) noexcept
    cdef void _close(self, unsigned long long tag) noexcept
    cdef void _tidy(self) noexcept
    cdef object _forget_oldest(self, unsigned long long tag)
    cdef object _grow(self)
    cdef unsigned long long _previous_open(self, unsigned long long tag) noexcept
    cdef unsigned long long _begin_of_range(self, unsigned long long tag, unsigned long long first) noexcept
    cdef inline unsigned long long _tag_of_read(self, Py_ssize_t number) noexcept
    cdef object _note_read(self, unsigned long long tag, unsigned long long now_ns)
    cdef object _grow_reads(self)
    cdef inline void _drop_oldest_read(self) noexcept
    cdef Py_ssize_t _read_of(self, unsigned long long tag, Py_ssize_t low) noexcept
    cdef void _observe(self, Py_ssize_t read, unsigned long long now_ns, Distribution seconds, long long count) noexcept

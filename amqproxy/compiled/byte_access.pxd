# `byte_access` in C: compilers make one load of each number.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memcmp, memcpy


cdef inline int short_at(const unsigned char *p, Py_ssize_t at) noexcept nogil:
    return p[at] << 8 | p[at + 1]


cdef inline long long long_at(const unsigned char *p, Py_ssize_t at) noexcept nogil:
    return <long long> (
        <unsigned long long> p[at] << 24
        | <unsigned long long> p[at + 1] << 16
        | <unsigned long long> p[at + 2] << 8
        | <unsigned long long> p[at + 3]
    )


cdef inline unsigned long long long_long_at(const unsigned char *p, Py_ssize_t at) noexcept nogil:
    return <unsigned long long> long_at(p, at) << 32 | <unsigned long long> long_at(p, at + 4)


cdef inline long long signed_long_long_at(const unsigned char *p, Py_ssize_t at) noexcept nogil:
    return <long long> long_long_at(p, at)


cdef inline bint are_alike(const unsigned char *p, Py_ssize_t one, Py_ssize_t other, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(size):
        if p[one + i] != p[other + i]:
            return False
    return True


cdef inline bint is_at(const unsigned char *p, Py_ssize_t at, Py_ssize_t size, bytes data) noexcept:
    return PyBytes_GET_SIZE(data) == size and memcmp(p + at, PyBytes_AS_STRING(data), size) == 0


cdef inline Py_ssize_t put_number(unsigned char *out, Py_ssize_t at, unsigned long long number, int size) noexcept nogil:
    cdef int i
    for i in range(size):
        out[at + i] = number >> (8 * (size - 1 - i)) & 0xFF
    return at + size


cdef inline Py_ssize_t field_size_at(const unsigned char *p, Py_ssize_t at, Py_ssize_t end, int code) noexcept nogil:
    cdef long long size
    if code == 115 or code == 117:  # s u
        if at >= end:
            return -1
        size = 1 + p[at]
    elif code == 113:  # q
        size = 8
    elif code == 104:  # h
        size = 2
    elif code == 108:  # l
        size = 4
    elif code == 111:  # o
        size = 1
    else:  # S F
        if end - at < 4:
            return -1
        size = 4 + long_at(p, at)
    return <Py_ssize_t> size if size <= end - at else -1


cdef inline Py_ssize_t put_bytes(unsigned char *out, Py_ssize_t at, bytes data) noexcept:
    memcpy(out + at, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
    return at + PyBytes_GET_SIZE(data)


cdef inline Py_ssize_t put_digits(unsigned char *out, Py_ssize_t at, unsigned long long number) noexcept nogil:
    cdef unsigned long long rest = number // 10
    cdef Py_ssize_t end = at + 1
    while rest:
        rest = rest // 10
        end += 1
    at = end
    while True:
        at -= 1
        out[at] = 48 + number % 10
        number = number // 10
        if number == 0:
            return end


cdef inline Py_ssize_t put_signed(unsigned char *out, Py_ssize_t at, long long number) noexcept nogil:
    if number >= 0:
        return put_digits(out, at, number)
    out[at] = 45
    return put_digits(out, at + 1, 0 - <unsigned long long> number)

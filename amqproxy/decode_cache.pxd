# What C sees of `decode_cache`.

cimport cython
from libc.string cimport memcmp


cdef extern from *:
    """
    #include <string.h>
    /* Each byte counts, and their order; two lanes, since a multiplication takes several cycles. */
    static inline unsigned long long amqproxy_hash_of(const unsigned char *p, Py_ssize_t size) {
        const unsigned long long k = 0x9E3779B97F4A7C15ULL;
        unsigned long long one = (unsigned long long)size * k, two = k, word, other;
        while (size >= 16) {
            memcpy(&word, p, 8);
            memcpy(&other, p + 8, 8);
            one = (one ^ word) * k;
            two = (two ^ other) * k;
            one ^= one >> 32;
            two ^= two >> 32;
            p += 16;
            size -= 16;
        }
        if (size >= 8) {
            memcpy(&word, p, 8);
            one = (one ^ word) * k;
            one ^= one >> 32;
            p += 8;
            size -= 8;
        }
        word = 0;
        while (size > 0) word = word << 8 | p[--size];
        one = (one ^ word ^ (two << 1)) * k;
        return one ^ (one >> 32);
    }
    """
    unsigned long long hash_of "amqproxy_hash_of" (const unsigned char *p, Py_ssize_t size)


@cython.final
cdef class DecodeCache:
    cdef list _keys
    cdef list _values
    cdef unsigned long long _hash
    cdef unsigned long long _seen[256]
    cdef unsigned long long _kept[256]

    cdef object _find(self, const unsigned char *p, Py_ssize_t start, Py_ssize_t size)
    cdef void _keep(self, const unsigned char *p, Py_ssize_t start, Py_ssize_t size, object value) except *

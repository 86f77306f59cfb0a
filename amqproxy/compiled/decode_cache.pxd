# What C sees of `decode_cache`.

cimport cython


cdef extern from *:
    """
    #include <string.h>

    static inline unsigned long long amqproxy_word(const unsigned char *p) {
        unsigned long long word;
        memcpy(&word, p, 8);
        return word;
    }

    /* Each byte counts, and its place; in two lanes, since a multiplication takes several cycles. */
    static inline unsigned long long amqproxy_hash_of(const unsigned char *p, Py_ssize_t size) {
        const unsigned long long k = 0x9E3779B97F4A7C15ULL;
        unsigned long long one = (unsigned long long)size * k, two = k;
        unsigned int low, high;
        while (size > 16) {
            one = (one ^ amqproxy_word(p)) * k;
            two = (two ^ amqproxy_word(p + 8)) * k;
            one ^= one >> 32;
            two ^= two >> 32;
            p += 16;
            size -= 16;
        }
        if (size >= 8) {
            one ^= amqproxy_word(p);
            two ^= amqproxy_word(p + size - 8);
        } else if (size >= 4) {
            memcpy(&low, p, 4);
            memcpy(&high, p + size - 4, 4);
            one ^= low;
            two ^= high;
        } else {
            one ^= p[0] | (unsigned int)p[size >> 1] << 8 | (unsigned int)p[size - 1] << 16;
        }
        one *= k;
        two *= k;
        one ^= (two ^ two >> 29) * k;
        return one ^ one >> 32;
    }

    static inline int amqproxy_is_same(const unsigned char *p, const unsigned char *q, Py_ssize_t size) {
        for (; size >= 8; p += 8, q += 8, size -= 8)
            if (amqproxy_word(p) != amqproxy_word(q)) return 0;
        for (; size > 0; p++, q++, size--)
            if (*p != *q) return 0;
        return 1;
    }

    /* What is in a slot. Its key and its value belong to lists. */
    typedef struct {
        unsigned long long hash;
        const unsigned char *key;
        Py_ssize_t size;
        PyObject *value;
    } amqproxy_entry;

    /* What is in a slot, or in the one behind it. */
    static inline PyObject *amqproxy_lookup(
        const amqproxy_entry *entry, unsigned long long hash, const unsigned char *p, Py_ssize_t size
    ) {
        PyObject *value = Py_None;
        if (entry->hash != hash) entry++;
        if (entry->hash == hash && entry->size == size && amqproxy_is_same(p, entry->key, size)) value = entry->value;
        Py_INCREF(value);
        return value;
    }

    static inline void amqproxy_enter(amqproxy_entry *entry, unsigned long long hash, PyObject *key, PyObject *value) {
        entry->hash = hash;
        entry->key = (const unsigned char *)PyBytes_AS_STRING(key);
        entry->size = PyBytes_GET_SIZE(key);
        entry->value = value;
    }
    """
    ctypedef struct Entry "amqproxy_entry":
        pass
    unsigned long long hash_of "amqproxy_hash_of" (const unsigned char *p, Py_ssize_t size)
    object lookup "amqproxy_lookup" (
        const Entry *entry, unsigned long long hash, const unsigned char *p, Py_ssize_t size
    )
    void enter "amqproxy_enter" (Entry *entry, unsigned long long hash, object key, object value)


@cython.final
cdef class DecodeCache:
    cdef list _keys
    cdef list _values
    cdef unsigned long long _hash
    cdef unsigned int _kept
    cdef unsigned long long _seen[256]
    cdef Entry _entries[256]

    cdef object _find(self, const unsigned char *p, Py_ssize_t start, Py_ssize_t size)
    cdef void _keep(self, const unsigned char *p, Py_ssize_t start, Py_ssize_t size, object value) except *

# What C sees of `wire`.

cimport cython

from amqproxy.compiled.byte_access cimport long_at, long_long_at
from amqproxy.compiled.decode_cache cimport DecodeCache
from amqproxy.compiled.struct_slots cimport copy_struct, fill_slot, new_struct, put_field


cdef extern from *:
    """
    /* The first of the bits from the highest on; there has to be one. */
    #if defined(__GNUC__)
    #define amqp091_first_of(bits) (__builtin_clz(bits))
    #else
    static inline int amqp091_first_of(unsigned int bits) {
        int index = 0;
        while (!(bits & 0x80000000u)) { bits <<= 1; index++; }
        return index;
    }
    #endif
    """
    int first_of "amqp091_first_of" (unsigned int bits)


@cython.final
cdef class StructDecoder:
    cdef object _cls
    cdef bytes _layout
    cdef bytes _slots
    cdef object _blank

    cpdef object of_fields(self, bytes data, Py_ssize_t position, Py_ssize_t end)
    cpdef object of_flagged(self, bytes data, Py_ssize_t position, Py_ssize_t end)
    cdef object _made(self, unsigned int present, bytes data, Py_ssize_t position, Py_ssize_t end)
    cdef object _of_four(self, object one, object two, object three, object four)

# What C sees of `wire`.

cimport cython

from amqproxy.amqp010.sequence cimport SequenceSet
from amqproxy.compiled.byte_access cimport long_at, long_long_at, signed_long_long_at
from amqproxy.compiled.decode_cache cimport DecodeCache
from amqproxy.compiled.struct_slots cimport copy_struct, fill_slot, new_untracked, put_field


cdef extern from *:
    """
    /* The first of the bits from the lowest on; there has to be one. */
    #if defined(__GNUC__)
    #define amqp010_first_of(bits) (__builtin_ctz(bits))
    #else
    static inline int amqp010_first_of(unsigned int bits) {
        int index = 0;
        while (!(bits & 1)) { bits >>= 1; index++; }
        return index;
    }
    #endif

    static inline PyObject *amqp010_number_of(const unsigned char *p) {
    #if PY_VERSION_HEX >= 0x030D0000
        return PyLong_FromUnsignedNativeBytes(p, 16, Py_ASNATIVEBYTES_BIG_ENDIAN);
    #else
        return _PyLong_FromByteArray(p, 16, 0, 0);
    #endif
    }
    """
    int first_of "amqp010_first_of" (unsigned int bits)
    object number_of "amqp010_number_of" (const unsigned char *p)


@cython.final
cdef class StructDecoder:
    cdef object _cls
    cdef bytes _layout
    cdef int _pack
    cdef bint _has_extra
    cdef bytes _slots
    cdef object _blank
    cdef list _absent

    cdef object _made(self, bytes data, Py_ssize_t position, Py_ssize_t end, int depth, long long offset)
    cdef object _of_command(
        self, bytes data, Py_ssize_t position, Py_ssize_t end, int depth, long long offset, object extra
    )
    cdef object _of_one(self, object value)


cdef tuple _structs(bytes data, Py_ssize_t position, Py_ssize_t end, long long offset)
cdef bint _is_once_only(const unsigned char *p, Py_ssize_t position, Py_ssize_t end) noexcept

# What C sees of `wire`.

cimport cython

from amqproxy.amqp010.sequence cimport SequenceSet
from amqproxy.decode_cache cimport DecodeCache


cdef extern from *:
    """
    #include <string.h>
    #include <structmember.h>
    /* The fields of a struct are in slots, as those of any class with __slots__: pointers at places that their
       descriptors know. */
    static inline long amqp010_slot_of(PyObject *descriptor) {
        Py_ssize_t offset;
        if (Py_TYPE(descriptor) != &PyMemberDescr_Type) return -1;
        offset = ((PyMemberDescrObject *)descriptor)->d_member->offset;
        return offset % sizeof(PyObject *) ? -1 : (long)(offset / sizeof(PyObject *));
    }
    static inline PyObject *amqp010_new_struct(PyObject *cls) {
        PyTypeObject *type = (PyTypeObject *)cls;
        PyObject *made;
        if (PyType_IS_GC(type)) return type->tp_alloc(type, 0);
        made = PyObject_New(PyObject, type);
        if (made) memset(made + 1, 0, type->tp_basicsize - sizeof(PyObject));
        return made;
    }
    static inline PyObject *amqp010_number_of(const unsigned char *p) {
    #if PY_VERSION_HEX >= 0x030D0000
        return PyLong_FromUnsignedNativeBytes(p, 16, Py_ASNATIVEBYTES_BIG_ENDIAN);
    #else
        return _PyLong_FromByteArray(p, 16, 0, 0);
    #endif
    }
    static inline void amqp010_fill_slot(PyObject *made, unsigned char slot, PyObject *value) {
        Py_INCREF(value);
        ((PyObject **)made)[slot] = value;
    }
    """
    long slot_of "amqp010_slot_of" (object descriptor)
    object new_struct "amqp010_new_struct" (object cls)
    object number_of "amqp010_number_of" (const unsigned char *p)
    void fill_slot "amqp010_fill_slot" (object made, unsigned char slot, object value)


@cython.final
cdef class StructDecoder:
    cdef object _cls
    cdef bytes _layout
    cdef int _pack
    cdef bint _has_extra
    cdef bytes _slots

    cdef object _made(self, bytes data, Py_ssize_t position, Py_ssize_t end, int depth, long long offset)
    cdef object _of_command(
        self, bytes data, Py_ssize_t position, Py_ssize_t end, int depth, long long offset, object extra
    )
    cdef object _of_one(self, object value)


cdef tuple _structs(bytes data, Py_ssize_t position, Py_ssize_t end, long long offset)

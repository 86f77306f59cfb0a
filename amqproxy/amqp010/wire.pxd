# What C sees of `wire`.

cimport cython
from libc.string cimport memcmp

from amqproxy.amqp010.sequence cimport SequenceSet


cdef extern from *:
    """
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
        return ((PyTypeObject *)cls)->tp_alloc((PyTypeObject *)cls, 0);
    }
    static inline void amqp010_fill_slot(PyObject *made, unsigned char slot, PyObject *value) {
        Py_INCREF(value);
        ((PyObject **)made)[slot] = value;
    }
    """
    long slot_of "amqp010_slot_of" (object descriptor)
    object new_struct "amqp010_new_struct" (object cls)
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

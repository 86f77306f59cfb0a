# What C sees of `wire`.

cimport cython

from amqproxy.decode_cache cimport DecodeCache


cdef extern from *:
    """
    #include <string.h>
    #include <structmember.h>
    /* The fields of a struct are in slots, as those of any class with __slots__: pointers at places that their
       descriptors know. */
    static inline long amqproxy_slot_of(PyObject *descriptor) {
        Py_ssize_t offset;
        if (Py_TYPE(descriptor) != &PyMemberDescr_Type) return -1;
        offset = ((PyMemberDescrObject *)descriptor)->d_member->offset;
        return offset % sizeof(PyObject *) ? -1 : (long)(offset / sizeof(PyObject *));
    }
    static inline PyObject *amqproxy_new_struct(PyObject *cls) {
        PyTypeObject *type = (PyTypeObject *)cls;
        PyObject *made;
        if (PyType_IS_GC(type)) return type->tp_alloc(type, 0);
        made = PyObject_New(PyObject, type);
        if (made) memset(made + 1, 0, type->tp_basicsize - sizeof(PyObject));
        return made;
    }
    static inline void amqproxy_fill_slot(PyObject *made, unsigned char slot, PyObject *value) {
        Py_INCREF(value);
        ((PyObject **)made)[slot] = value;
    }
    """
    long slot_of "amqproxy_slot_of" (object descriptor)
    object new_struct "amqproxy_new_struct" (object cls)
    void fill_slot "amqproxy_fill_slot" (object made, unsigned char slot, object value)


@cython.final
cdef class StructDecoder:
    cdef object _cls
    cdef bytes _layout
    cdef bytes _slots

    cdef object _of_fields(self, bytes data, Py_ssize_t position, Py_ssize_t end)
    cdef object _of_flagged(self, bytes data, Py_ssize_t position, Py_ssize_t end)
    cdef object _made(self, unsigned int present, bytes data, Py_ssize_t position, Py_ssize_t end)
    cdef object _of_four(self, object one, object two, object three, object four)

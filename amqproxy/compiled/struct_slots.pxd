# What C sees of `struct_slots`: it is compiled into each module that makes structs.

from cpython.bytes cimport PyBytes_AS_STRING


cdef extern from *:
    """
    #include <string.h>
    #include <structmember.h>

    #ifndef AMQPROXY_STRUCT_SLOTS
    #define AMQPROXY_STRUCT_SLOTS

    /* The fields of a struct are in slots, as those of any class with __slots__: pointers at places that their
       descriptors know. */
    static inline long amqproxy_slot_of(PyObject *descriptor) {
        Py_ssize_t offset;
        if (Py_TYPE(descriptor) != &PyMemberDescr_Type) return -1;
        offset = ((PyMemberDescrObject *)descriptor)->d_member->offset;
        return offset % sizeof(PyObject *) ? -1 : (long)(offset / sizeof(PyObject *));
    }

    static inline int amqproxy_has_only(PyObject *cls, Py_ssize_t fields) {
        PyTypeObject *type = (PyTypeObject *)cls;
        return !PyType_IS_GC(type) && type->tp_itemsize == 0 && type->tp_dictoffset == 0 && type->tp_weaklistoffset == 0
            && type->tp_basicsize == (Py_ssize_t)sizeof(PyObject) + fields * (Py_ssize_t)sizeof(PyObject *);
    }

    static inline PyObject *amqproxy_new_struct(PyObject *cls) {
        return ((PyTypeObject *)cls)->tp_alloc((PyTypeObject *)cls, 0);
    }

    /* Of a class whose objects are in no cycle, so that the collector need not see them; its slots are NULL. */
    static inline PyObject *amqproxy_new_untracked(PyObject *cls) {
        PyTypeObject *type = (PyTypeObject *)cls;
        PyObject *made;
        if (!PyType_IS_GC(type) || type->tp_itemsize) return type->tp_alloc(type, 0);
        made = PyObject_GC_New(PyObject, type);
        if (made) memset(made + 1, 0, type->tp_basicsize - sizeof(PyObject));
        return made;
    }

    static inline void amqproxy_fill_slot(PyObject *made, unsigned char slot, PyObject *value) {
        Py_INCREF(value);
        ((PyObject **)made)[slot] = value;
    }

    /* The memory of structs, to be used again: as many of each size as a batch of frames may have. */
    #define AMQPROXY_SIZES 40
    #define AMQPROXY_KEPT 256
    static struct { int count; void *memory[AMQPROXY_KEPT]; } amqproxy_kept[AMQPROXY_SIZES];

    static void amqproxy_free_struct(void *memory) {
        Py_ssize_t size = Py_TYPE((PyObject *)memory)->tp_basicsize / (Py_ssize_t)sizeof(PyObject *);
        if (size < AMQPROXY_SIZES && amqproxy_kept[size].count < AMQPROXY_KEPT)
            amqproxy_kept[size].memory[amqproxy_kept[size].count++] = memory;
        else
            PyObject_Free(memory);
    }

    static inline void amqproxy_reuse_memory(PyObject *cls) {
    #ifndef Py_GIL_DISABLED
        if (((PyTypeObject *)cls)->tp_free == PyObject_Free) ((PyTypeObject *)cls)->tp_free = amqproxy_free_struct;
    #endif
    }

    /* Of a struct that has slots and nothing else, all of which are None or False. */
    static inline PyObject *amqproxy_copy_struct(PyObject *blank) {
        PyTypeObject *type = Py_TYPE(blank);
        Py_ssize_t size = type->tp_basicsize / (Py_ssize_t)sizeof(PyObject *);
        PyObject *made;
        if (size < AMQPROXY_SIZES && amqproxy_kept[size].count) {
            made = (PyObject *)amqproxy_kept[size].memory[--amqproxy_kept[size].count];
            PyObject_Init(made, type);
        } else {
            made = PyObject_New(PyObject, type);
            if (!made) return NULL;
        }
        memcpy(made + 1, blank + 1, type->tp_basicsize - sizeof(PyObject));
    #if PY_VERSION_HEX < 0x030C0000
        for (size = sizeof(PyObject) / sizeof(PyObject *); size * (Py_ssize_t)sizeof(PyObject *) < type->tp_basicsize; size++)
            Py_INCREF(((PyObject **)made)[size]);
    #endif
        return made;
    }

    /* Where there is None or False so far. */
    static inline void amqproxy_set_slot(PyObject *made, unsigned char slot, PyObject *value) {
    #if PY_VERSION_HEX < 0x030C0000
        Py_DECREF(((PyObject **)made)[slot]);
    #endif
        Py_INCREF(value);
        ((PyObject **)made)[slot] = value;
    }
    #endif
    """
    long slot_of "amqproxy_slot_of" (object descriptor)
    bint has_only "amqproxy_has_only" (object cls, Py_ssize_t fields)
    object new_struct "amqproxy_new_struct" (object cls)
    object new_untracked "amqproxy_new_untracked" (object cls)
    void fill_slot "amqproxy_fill_slot" (object made, unsigned char slot, object value)
    void reuse_memory "amqproxy_reuse_memory" (object cls)
    object copy_struct "amqproxy_copy_struct" (object blank)
    void set_slot "amqproxy_set_slot" (object made, unsigned char slot, object value)


cdef inline void put_field(object made, bytes slots, Py_ssize_t index, object value) noexcept:
    if slots:
        set_slot(made, <unsigned char> PyBytes_AS_STRING(slots)[index], value)
    else:
        (<list> made)[index] = value

# What C sees of `message`. A message holds nothing that could hold it in turn, so the collector need not look at it.

cimport cython


@cython.no_gc
cdef class Message:
    cdef public str exchange
    cdef public str routing_key
    cdef public bytes header
    cdef public bytes body
    cdef public tuple more_keys
    cdef object _properties

    cpdef forget_properties(self)


cpdef Message published(str exchange, str routing_key, bytes header, bytes body, object properties)

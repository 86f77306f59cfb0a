# What C sees of `events`: whether anybody listens.

cdef class Events:
    cdef public list observers
    cdef public list keepers

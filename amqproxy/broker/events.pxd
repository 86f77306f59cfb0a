# What C sees of `events`: whether there are observers.

cdef class EventDispatcher:
    cdef public list observers
    cdef public list recorders
    cdef public object on_failure
    cdef public object on_log
    cdef public long long failures
    cdef readonly object churn

# What C sees of `assembly`.

cimport cython

from amqproxy.amqp010.frame cimport Frame


@cython.final
cdef class Assembly:
    cdef readonly int channel
    cdef readonly list frames
    cdef object _method
    cdef object _header
    cdef bytes _body

    cdef Frame _last(self)


@cython.final
cdef class AssemblyReader:
    cdef readonly long long max_body
    cdef readonly long long skipped
    cdef list _controls
    cdef list _commands
    cdef long long _control_size
    cdef long long _command_size

    cpdef Assembly add(self, Frame frame)
    cdef _drop(self, int track)

# What C sees of `stalled_directions`.

cimport cython

from amqproxy.pump.pumped_connection cimport DirectionPointer, PumpedDirection


@cython.final
cdef class StalledDirections:
    cdef PumpedDirection *first

    cdef void add(self, PumpedDirection *direction, unsigned long long now) noexcept nogil
    cdef void discard(self, PumpedDirection *direction) noexcept nogil

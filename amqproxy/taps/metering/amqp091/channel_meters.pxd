# What C sees of `channel_meters`.

cimport cython

from amqproxy.taps.metering.amqp091.channel_meter cimport ChannelMeter
from amqproxy.taps.metering.message_counts cimport MessageCounts


@cython.final
cdef class ChannelMeters:
    cdef MessageCounts _counts
    cdef readonly dict by_number
    cdef dict _previous
    cdef ChannelMeter _recent
    cdef int _recent_number
    cdef object _budget
    cdef object _settlements

    cdef ChannelMeter of(self, bint is_server, int number)
    cdef ChannelMeter new(self, int number)

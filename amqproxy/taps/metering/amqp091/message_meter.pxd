# What C sees of `message_meter`.

cimport cython

from amqproxy.compiled.byte_access cimport long_at, long_long_at, short_at
from amqproxy.taps.metering.amqp091.acknowledgement_run cimport AcknowledgementRun
from amqproxy.taps.metering.amqp091.channel_meter cimport ChannelMeter
from amqproxy.taps.metering.amqp091.channel_meters cimport ChannelMeters
from amqproxy.taps.metering.message_counts cimport MessageCounts
from amqproxy.taps.metering.amqp091.message_run cimport MessageRun


@cython.final
cdef class ContentUnderWay:
    cdef int number
    cdef int method
    cdef bytes payload
    cdef unsigned long long tag
    cdef bint is_redelivered
    cdef bint is_auto_acked
    cdef unsigned long long size
    cdef unsigned long long remaining


@cython.final
cdef class MessageMeter:
    cdef MessageCounts _counts
    cdef ChannelMeters _channels
    cdef MessageRun _run
    cdef AcknowledgementRun _acknowledgements
    cdef ContentUnderWay _client_content
    cdef ContentUnderWay _server_content
    cdef dict _interleaved
    cdef readonly bint is_lost
    cdef readonly long long frames

    cpdef feed(self, bint is_server, const unsigned char[::1] data, double now, bint is_cut=*)
    cdef Py_ssize_t _take_run(
        self, bint is_server, const unsigned char *p, Py_ssize_t at, Py_ssize_t length, unsigned long long now_ns
    ) except -1
    cdef object _note_run(self, bint is_server, const unsigned char *p, unsigned long long now_ns)
    cdef object _note_publishes(self, int number, long long count, unsigned long long now_ns)
    cdef object _note_deliveries(self, const unsigned char *p, unsigned long long now_ns)
    cdef object _note_acknowledgements(self, bint is_server, unsigned long long now_ns)
    cdef ContentUnderWay _begin(self, bint is_server, int number, int method)
    cdef bint _take_content(
        self, bint is_server, const unsigned char *p, Py_ssize_t at, Py_ssize_t end, unsigned long long now_ns
    ) except -1
    cdef object _complete(self, bint is_server, ContentUnderWay content, unsigned long long now_ns)
    cdef bint _take_from_client(
        self, const unsigned char *p, Py_ssize_t at, Py_ssize_t end, unsigned long long now_ns
    ) except -1
    cdef bint _take_from_server(
        self, const unsigned char *p, Py_ssize_t at, Py_ssize_t end, unsigned long long now_ns
    ) except -1
    cdef bint _begin_delivery(self, int number, const unsigned char *p, Py_ssize_t at, Py_ssize_t end) except -1

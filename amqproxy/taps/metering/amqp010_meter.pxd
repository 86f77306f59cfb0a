# What C sees of `amqp010_meter`.

cimport cython

from amqproxy.amqp010.frame cimport Frame
from amqproxy.taps.metering.distribution cimport Distribution
from amqproxy.taps.metering.message_counts cimport MessageCounts
from amqproxy.taps.metering.open_transfers cimport OpenTransfers


@cython.final
cdef class SendingPeer:
    cdef long long last
    cdef bint is_under_way
    cdef bint has_position
    cdef long long position
    cdef bint is_accepted
    cdef bint is_redelivered
    cdef unsigned long long size


@cython.final
cdef class AttachmentMeter:
    cdef readonly OpenTransfers publishes
    cdef readonly OpenTransfers deliveries
    cdef readonly dict requests
    cdef readonly dict consumers
    cdef readonly unsigned long long published
    cdef readonly unsigned long long delivered
    cdef public bint is_transactional
    cdef SendingPeer _client
    cdef SendingPeer _server

    cdef list ranges(self, SendingPeer peer, object ids)


@cython.final
cdef class AMQP010Meter:
    cdef MessageCounts _counts
    cdef dict _sessions
    cdef dict _asked
    cdef AttachmentMeter _recent
    cdef int _recent_channel

    cdef AttachmentMeter _session(self, int channel)
    cdef object _take_control(self, bint is_server, Frame frame, double now)
    cdef AttachmentMeter _begin(self, int channel)
    cdef object _take_command(self, bint is_server, Frame frame, object command_id, double now)
    cdef object _finish(self, bint is_server, AttachmentMeter session, SendingPeer peer, double now)
    cdef object _complete(self, AttachmentMeter session, object commands, double now)
    cdef object _take_of_server(self, AttachmentMeter session, object method, double now)
    cdef object _take_of_client(self, AttachmentMeter session, object method, double now)
    cdef long long _confirm(
        self, AttachmentMeter session, int outcome, long long first, long long last, double now
    ) except -1
    cdef object _settle(self, AttachmentMeter session, int outcome, object transfers, double now)

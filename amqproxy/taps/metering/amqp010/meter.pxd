# What C sees of `meter`.

cimport cython

from amqproxy.amqp010.command_numbering cimport CommandNumbering
from amqproxy.compiled.byte_access cimport long_at, short_at
from amqproxy.taps.metering.amqp010.message_run cimport (
    Amqp010MessageRun, arguments_at, may_be_redelivered, needs_no_acceptance,
)
from amqproxy.taps.metering.distribution cimport Distribution
from amqproxy.taps.metering.message_counts cimport MessageCounts
from amqproxy.taps.metering.amqp010.open_transfers cimport OpenTransfers


@cython.final
cdef class SendingPeer:
    cdef long long last
    cdef bint is_under_way
    cdef bint has_position
    cdef bint is_accepted
    cdef bint is_redelivered
    cdef unsigned long long size
    cdef bytes payload

    cdef long long passed(self, long long number, long long count) noexcept


@cython.final
cdef class AttachmentMeter:
    cdef readonly dict consumers
    cdef readonly unsigned long long published
    cdef readonly unsigned long long delivered
    cdef public bint is_transactional
    cdef public bint is_distributed
    cdef public bint is_resumed
    cdef OpenTransfers _publishes
    cdef OpenTransfers _deliveries
    cdef object _requests
    cdef SendingPeer _client
    cdef SendingPeer _server


@cython.final
cdef class Amqp010Meter:
    cdef MessageCounts _counts
    cdef object _observer
    cdef Amqp010MessageRun _run
    cdef dict _sessions
    cdef dict _asked
    cdef AttachmentMeter _recent
    cdef int _recent_channel
    cdef CommandNumbering _client_numbers
    cdef CommandNumbering _server_numbers
    cdef object _run_room
    cdef object _request_room
    cdef object _consumer_room
    cdef readonly bint counts_all_consumers

    cpdef feed(self, bint is_server, const unsigned char[::1] data, double now, bint is_cut=*)
    cdef AttachmentMeter _session(self, int channel)
    cdef AttachmentMeter _begun(self, int channel)
    cdef AttachmentMeter _begin(self, int channel)
    cdef object _take_control(
        self,
        bint is_server,
        int channel,
        int index,
        const unsigned char *p,
        Py_ssize_t at,
        Py_ssize_t end,
        double now,
    )
    cdef Py_ssize_t _take_runs(
        self, bint is_server, const unsigned char *p, Py_ssize_t at, Py_ssize_t length, double now, bint is_cut
    ) except -1
    cdef object _note_transfers(self, bint is_server, int channel, long long count, bint is_accepted, double now)
    cdef object _note(
        self,
        bint is_server,
        AttachmentMeter session,
        bint is_accepted,
        bint has_position,
        long long first,
        long long count,
        double now,
    )
    cdef object _take_content(
        self,
        bint is_server,
        int channel,
        int kind,
        int flags,
        const unsigned char *p,
        Py_ssize_t at,
        Py_ssize_t size,
        double now,
    )
    cdef object _take_command(
        self,
        bint is_server,
        int channel,
        int index,
        int flags,
        long long number,
        const unsigned char *p,
        Py_ssize_t at,
        Py_ssize_t end,
        double now,
    )
    cdef object _finish(self, bint is_server, AttachmentMeter session, SendingPeer peer, double now)
    cdef object _complete(self, AttachmentMeter session, const unsigned char *p, Py_ssize_t at, double now)
    cdef object _take_settlement(
        self,
        bint is_server,
        AttachmentMeter session,
        int index,
        const unsigned char *p,
        Py_ssize_t at,
        Py_ssize_t end,
        double now,
    )
    cdef object _answer(self, AttachmentMeter session, long long first, long long last, double now)
    cdef object _take_request(
        self, int channel, AttachmentMeter session, object method, long long position, bytes payload, double now
    )
    cdef long long _confirm(
        self, AttachmentMeter session, int outcome, long long first, long long last, double now
    ) except -1
    cdef long long _settle(
        self, AttachmentMeter session, int outcome, long long first, long long last, double now
    ) except -1
    cdef long long _close(
        self,
        OpenTransfers opened,
        Distribution seconds,
        int outcome,
        int gauge,
        long long first,
        long long last,
        double now,
    ) except -1

# What C sees of `relay_loop`.

cimport cython
from libc.errno cimport EAGAIN, EINTR, ENOMEM, errno
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from amqproxy.pump.frame_scanner cimport FrameScanner
from amqproxy.pump.journal cimport Journal
from amqproxy.pump.latency_counts cimport LatencyCounts
from amqproxy.pump.pump_message cimport ACKNOWLEDGED, BEGIN, MUCH_WRITTEN, RECALL, RETURNED, PumpMessage
from amqproxy.pump.pumped_connection cimport DirectionLink, DirectionPointer, Pumped, PumpedDirection, PumpedPointer
from amqproxy.pump.stalled_directions cimport StalledDirections
from amqproxy.pump.tls_records cimport receive_tls, send_tls
from amqproxy.pump.system_calls cimport (
    EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, BytePointer, add,
    close_descriptor, epoll_create1, epoll_ctl, epoll_event, epoll_wait, load, now_ns, put_int, read_pipe,
    receive_bytes, send_bytes, store, wait_for, write_pipe,
)


@cython.final
cdef class RelayLoop:
    cdef int epoll
    cdef unsigned long long has_called
    cdef unsigned long long has_recall
    cdef int is_stopping
    cdef unsigned long long has_ended
    cdef int _commands
    cdef int _returns
    cdef Journal _journal
    cdef LatencyCounts _latencies
    cdef StalledDirections _stalled
    cdef unsigned char *_scratch
    cdef int _acks_due
    cdef Pumped *_leaving
    cdef PumpedDirection *_unfinished
    cdef unsigned long long _looked_at
    cdef unsigned long long _held
    cdef unsigned long long _stuck_ns
    cdef epoll_event _events[64]

    cdef void run(self) noexcept nogil
    cdef int turn(self, int milliseconds) noexcept nogil
    cdef void _take_commands(self) noexcept nogil
    cdef void _begin(self, Pumped *connection) noexcept nogil
    cdef int _register(self, PumpedDirection *direction, int operation) noexcept nogil
    cdef void _give_back(self, Pumped *connection, int reason) noexcept nogil
    cdef void _send_back(self) noexcept nogil
    cdef void _handle(self, PumpedDirection *direction, unsigned int events) noexcept nogil
    cdef void _receive(self, PumpedDirection *direction) noexcept nogil
    cdef void _note_unfinished(self, PumpedDirection *direction) noexcept nogil
    cdef void _continue(self) noexcept nogil
    cdef void _forget_left(self) noexcept nogil
    cdef long long _receive_into(self, PumpedDirection *direction, unsigned char *into, size_t size) noexcept nogil
    cdef long long _send(self, PumpedDirection *direction, unsigned char *data, size_t size) noexcept nogil
    cdef void _wait_for_room(self, PumpedDirection *direction, unsigned long long now) noexcept nogil
    cdef void _flush(self, PumpedDirection *direction) noexcept nogil
    cdef void _give_back_slow(self, unsigned long long now) noexcept nogil
    cdef void _call(self) noexcept nogil

# What C sees of `pump`: the system calls, and what a pump keeps of each connection.

cimport cython
from libc.errno cimport EAGAIN, EINTR, ENOMEM, errno
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memmove

from amqproxy.amqp091.frame_reader cimport ContentState, FrameReader
from amqproxy.amqp091.tally cimport Tally


cdef extern from *:
    """
    #include <errno.h>
    #include <stdint.h>
    #include <time.h>
    #include <unistd.h>
    #include <fcntl.h>
    #include <poll.h>
    #include <sys/socket.h>
    #if defined(__linux__)
    #include <sys/epoll.h>
    #define AMQPROXY_HAS_EPOLL 1
    #else
    /* A pump is for Linux; elsewhere the module is there, and says so. */
    #define AMQPROXY_HAS_EPOLL 0
    #define EPOLLIN 1
    #define EPOLLOUT 4
    #define EPOLLERR 8
    #define EPOLLHUP 16
    #define EPOLLRDHUP 0x2000
    #define EPOLL_CTL_ADD 1
    #define EPOLL_CTL_DEL 2
    #define EPOLL_CTL_MOD 3
    #ifndef MSG_NOSIGNAL
    #define MSG_NOSIGNAL 0
    #endif
    typedef union { void *ptr; } epoll_data_t;
    struct epoll_event { uint32_t events; epoll_data_t data; };
    static inline int epoll_create1(int flags) { errno = ENOSYS; return -1; }
    static inline int epoll_ctl(int e, int op, int fd, struct epoll_event *ev) { errno = ENOSYS; return -1; }
    static inline int epoll_wait(int e, struct epoll_event *ev, int n, int t) { errno = ENOSYS; return -1; }
    #endif

    typedef unsigned char amqproxy_byte;
    typedef const unsigned char amqproxy_const_byte;

    static inline unsigned long long amqproxy_now(void) {
        struct timespec at;
        clock_gettime(CLOCK_MONOTONIC, &at);
        return (unsigned long long)at.tv_sec * 1000000000ULL + (unsigned long long)at.tv_nsec;
    }
    static inline long long amqproxy_recv(int fd, void *into, size_t size) {
        return (long long)recv(fd, into, size, MSG_DONTWAIT);
    }
    static inline long long amqproxy_send(int fd, const void *data, size_t size) {
        return (long long)send(fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    static inline int amqproxy_pipe(int ends[2]) {
        int i;
        if (pipe(ends) < 0) return -1;
        for (i = 0; i < 2; i++) {
            fcntl(ends[i], F_SETFL, fcntl(ends[i], F_GETFL) | O_NONBLOCK);
            fcntl(ends[i], F_SETFD, FD_CLOEXEC);
        }
        return 0;
    }
    static inline long long amqproxy_read_pipe(int fd, void *into, size_t size) {
        return (long long)read(fd, into, size);
    }
    static inline long long amqproxy_write_pipe(int fd, const void *data, size_t size) {
        return (long long)write(fd, data, size);
    }
    static inline int amqproxy_wait(int fd, int is_to_write, int milliseconds) {
        struct pollfd one = { fd, is_to_write ? POLLOUT : POLLIN, 0 };
        return poll(&one, 1, milliseconds);
    }
    /* What one thread writes and the other reads: the bytes of a journal lie there before its end is moved. */
    #define amqproxy_load(place) __atomic_load_n((place), __ATOMIC_ACQUIRE)
    #define amqproxy_store(place, value) __atomic_store_n((place), (value), __ATOMIC_RELEASE)
    /* Counters and states, which one thread changes, and another one reads whenever it likes. */
    #define amqproxy_put(place, value) __atomic_store_n((place), (value), __ATOMIC_RELAXED)
    #define amqproxy_look(place) __atomic_load_n((place), __ATOMIC_RELAXED)
    #define amqproxy_add(place, value) \\
        __atomic_store_n((place), __atomic_load_n((place), __ATOMIC_RELAXED) + (value), __ATOMIC_RELAXED)
    """
    ctypedef union epoll_data_t:
        void *ptr
    cdef struct epoll_event:
        unsigned int events
        epoll_data_t data
    int AMQPROXY_HAS_EPOLL
    unsigned int EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP, EPOLLRDHUP
    int EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD
    int epoll_create1(int flags) nogil
    int epoll_ctl(int epoll, int operation, int descriptor, epoll_event *event) nogil
    int epoll_wait(int epoll, epoll_event *events, int most, int milliseconds) nogil
    int close_descriptor "close" (int descriptor) nogil
    unsigned long long now_ns "amqproxy_now" () nogil
    long long receive_bytes "amqproxy_recv" (int descriptor, void *into, size_t size) nogil
    long long send_bytes "amqproxy_send" (int descriptor, const void *data, size_t size) nogil
    int new_pipe "amqproxy_pipe" (int *ends) nogil
    long long read_pipe "amqproxy_read_pipe" (int descriptor, void *into, size_t size) nogil
    long long write_pipe "amqproxy_write_pipe" (int descriptor, const void *data, size_t size) nogil
    int wait_for "amqproxy_wait" (int descriptor, int is_to_write, int milliseconds) nogil
    unsigned long long load "amqproxy_load" (unsigned long long *place) nogil
    void store "amqproxy_store" (unsigned long long *place, unsigned long long value) nogil
    unsigned long long look "amqproxy_look" (unsigned long long *place) nogil
    void add "amqproxy_add" (unsigned long long *place, unsigned long long value) nogil
    void put "amqproxy_put" (unsigned long long *place, unsigned long long value) nogil
    int look_int "amqproxy_look" (int *place) nogil
    void put_int "amqproxy_put" (int *place, int value) nogil


cdef extern from "Python.h":
    object PyMemoryView_FromMemory(char *memory, Py_ssize_t size, int flags)
    int PyBUF_READ


ctypedef unsigned char *BytePointer
ctypedef const unsigned char *ConstBytePointer
ctypedef const void *ConstVoidPointer
ctypedef void *VoidPointer
ctypedef char *CharPointer
ctypedef int *IntPointer
ctypedef unsigned long long *CounterPointer


cdef struct ChannelContent:
    # One direction of one channel: what a `ContentState` has of it.
    int number
    int expects
    int index
    unsigned long long remaining
    unsigned long long contents


ctypedef ChannelContent *ChannelContentPointer


cdef struct PumpedDirection:
    # What one peer sends. `rest` is received and begins at the bound of a frame, `unsent` is taken and not sent yet.
    void *owner
    int place
    int source
    int target
    int is_read
    int is_waiting
    int is_listed
    int error
    long long payload_max
    unsigned long long received
    unsigned long long taken
    unsigned long long frames
    unsigned long long shown_received
    unsigned long long shown_taken
    unsigned long long shown_frames
    unsigned char *rest
    Py_ssize_t rest_size
    unsigned char *unsent
    Py_ssize_t unsent_from
    Py_ssize_t unsent_end
    unsigned long long listed_at
    PumpedDirection *next_listed
    PumpedDirection *last_listed
    ChannelContent *channels
    int channel_count
    int recent
    unsigned long long looked_received
    double heard_at
    double patience


ctypedef PumpedDirection *DirectionPointer


cdef struct Pumped:
    # Both directions of a connection: the client's, and the server's. `object` is the one of Python.
    PumpedDirection directions[2]
    void *object
    int is_here
    int is_metered
    int reason
    long long frames_left
    Pumped *next_leaving


ctypedef Pumped *PumpedPointer


cdef struct PumpMessage:
    # What goes through the pipes: a connection, and what becomes of it.
    Pumped *connection
    long long kind


cdef struct JournalHead:
    # What lies in the journal before the bytes of a chunk.
    Pumped *connection
    unsigned long long at
    int is_server
    int is_cut
    unsigned long long size


ctypedef JournalHead *JournalHeadPointer


@cython.final
cdef class PumpedConnection:
    cdef Pumped *_pumped
    cdef readonly object readers
    cdef public object returned
    cdef readonly object note
    cdef readonly object holder
    cdef readonly bint is_pumped
    cdef bint _has_arrived

    cdef object _load(self, FrameReader reader, PumpedDirection *direction)
    cdef object _show(self, FrameReader reader, PumpedDirection *direction)
    cdef bint _is_silent(self, double now) noexcept


@cython.final
cdef class Pump:
    cdef int _epoll
    cdef int _commands[2]
    cdef int _returns[2]
    cdef unsigned char *_scratch
    cdef unsigned char *_journal
    cdef unsigned long long _journal_size
    cdef unsigned long long _journal_start
    cdef unsigned long long _journal_end
    cdef unsigned long long _journal_base
    cdef unsigned long long _has_called
    cdef int _is_stopping
    cdef int _is_acked
    cdef int _acks_due
    cdef Pumped *_leaving
    cdef PumpedDirection *_listed
    cdef unsigned long long _looked_at
    cdef unsigned long long *_frames
    cdef unsigned long long *_bytes
    cdef unsigned long long *_reported_frames
    cdef unsigned long long *_reported_bytes
    cdef unsigned long long *_latency
    cdef unsigned long long *_reported_latency
    cdef unsigned long long *_bounds
    cdef int _bound_count
    cdef unsigned long long _latency_total
    cdef unsigned long long _reported_total
    cdef unsigned long long _held
    cdef unsigned long long _stuck_ns
    cdef long long _most_frames
    cdef unsigned char _keeps[2][256]
    cdef epoll_event _events[64]
    cdef const unsigned char *_index_of
    cdef const unsigned char *_carries
    cdef object _tables
    cdef object _tallies
    cdef set _connections
    cdef object _arrived
    cdef readonly bint is_threaded

    cdef int _turn(self, int milliseconds) noexcept nogil
    cdef void _take_commands(self) noexcept nogil
    cdef void _begin(self, Pumped *connection) noexcept nogil
    cdef void _give_back(self, Pumped *connection, int reason) noexcept nogil
    cdef void _send_back(self) noexcept nogil
    cdef int _register(self, PumpedDirection *direction, int operation) noexcept nogil
    cdef void _handle(self, PumpedDirection *direction, unsigned int events) noexcept nogil
    cdef void _receive(self, PumpedDirection *direction) noexcept nogil
    cdef void _flush(self, PumpedDirection *direction) noexcept nogil
    cdef void _wait_for_room(self, PumpedDirection *direction, unsigned long long now) noexcept nogil
    cdef void _list(self, PumpedDirection *direction, unsigned long long now) noexcept nogil
    cdef void _unlist(self, PumpedDirection *direction) noexcept nogil
    cdef void _give_back_slow(self, unsigned long long now) noexcept nogil
    cdef Py_ssize_t _scan(self, PumpedDirection *direction, const unsigned char *p, Py_ssize_t length, int *reason) noexcept nogil
    cdef int _has_room(self) noexcept nogil
    cdef void _write_journal(self, PumpedDirection *direction, const unsigned char *data, Py_ssize_t size, unsigned long long frames, unsigned long long now) noexcept nogil
    cdef void _call(self) noexcept nogil
    cdef void _observe(self, unsigned long long nanoseconds) noexcept nogil
    cdef object _command(self, Pumped *connection, long long kind)
    cdef object _read_returns(self)
    cdef object _finish(self, PumpedConnection connection)

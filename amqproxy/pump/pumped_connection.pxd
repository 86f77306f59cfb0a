# What C sees of `pumped_connection`.

cimport cython
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from amqproxy.pump.tls_records cimport connection_of
from amqproxy.pump.system_calls cimport BytePointer, CharPointer, VoidPointer, look, look_int


cdef struct ChannelContent:
    # The frames of a channel, or of each of its tracks, in one direction: what their reader knows of them. `expects` and
    # `index` have the meaning that the protocol's scanner gives them; `contents` counts those that have begun.
    int number
    int expects
    int index
    unsigned long long remaining
    unsigned long long contents


ctypedef ChannelContent *ChannelContentPointer


cdef struct PumpedDirection:
    # What one peer sends. `rest` is received and begins at the bound of a frame, `unsent` is taken and not sent yet.
    # `source_tls` and `target_tls` are OpenSSL's connections, NULL without TLS. `is_unfinished` while OpenSSL may hold
    # received bytes, of which epoll knows nothing; `tls_failure` is the errno, or -1 for the end, that follows them.
    void *owner
    int place
    int source
    int target
    void *source_tls
    void *target_tls
    int is_read
    int is_waiting
    int is_listed
    int is_unfinished
    int error
    int tls_failure
    long long payload_max
    long long header_max
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
    PumpedDirection *next_unfinished
    ChannelContent *channels
    int channel_count
    int recent
    unsigned long long looked_received
    double heard_at
    double patience


ctypedef PumpedDirection *DirectionPointer
ctypedef PumpedDirection **DirectionLink


cdef inline ChannelContent *channel_of(PumpedDirection *direction, int number) noexcept nogil:
    # The channel, or track, of a number; NULL if it is not open.
    cdef int low = 0
    cdef int high = direction.channel_count
    cdef int middle
    if direction.recent < high and direction.channels[direction.recent].number == number:
        return &direction.channels[direction.recent]
    while low < high:
        middle = (low + high) // 2
        if direction.channels[middle].number < number:
            low = middle + 1
        else:
            high = middle
    if low == direction.channel_count or direction.channels[low].number != number:
        return NULL
    direction.recent = low
    return &direction.channels[low]


cdef struct Pumped:
    # Both directions of a connection: the client's, and the server's. `object` is the `PumpedConnection`, and `scanner`
    # the `FrameScanner` of its protocol in the pump that has it.
    PumpedDirection directions[2]
    void *object
    void *scanner
    int is_here
    int is_metered
    int reason
    long long frames_left
    Pumped *next_leaving


ctypedef Pumped *PumpedPointer


cdef class PumpedConnection:
    cdef Pumped *_pumped
    cdef readonly object readers
    cdef public object returned
    cdef readonly object note
    cdef readonly object holder
    cdef object _connections
    cdef readonly bint is_pumped
    cdef bint _has_arrived
    cdef bint _is_watched

    cdef object _load(self, object reader, PumpedDirection *direction)
    cdef object _load_rest(self, bytes held, PumpedDirection *direction)
    cdef object _new_channels(self, PumpedDirection *direction, int count)
    cdef object _empty(self, object reader)
    cdef object _show_channels(self, object reader, PumpedDirection *direction)
    cdef bint _is_silent(self, double now) noexcept

# `system_calls`, all of which is here.

from libc.string cimport memcpy


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


cdef inline Py_ssize_t copy_bytes(unsigned char *out, const unsigned char *data, Py_ssize_t size) noexcept nogil:
    memcpy(out, data, size)
    return size


ctypedef unsigned char *BytePointer
ctypedef const unsigned char *ConstBytePointer
ctypedef const void *ConstVoidPointer
ctypedef void *VoidPointer
ctypedef char *CharPointer
ctypedef int *IntPointer
ctypedef unsigned long long *CounterPointer

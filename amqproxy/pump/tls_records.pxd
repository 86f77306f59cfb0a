# What C sees of `tls_records`.
#
# Python's own OpenSSL is called, through the addresses of its functions in the libraries of `_ssl`: a second OpenSSL
# could not read its connections, and nothing has to be installed to compile this.

cimport cython

from amqproxy.pump.system_calls cimport BytePointer, ConstBytePointer, IntPointer, VoidPointer


cdef extern from *:
    """
    #include <dlfcn.h>
    #include <errno.h>
    #include <stddef.h>
    #include <string.h>

    #ifndef RTLD_NOLOAD
    #define RTLD_NOLOAD 0
    #endif

    static struct {
        int (*read)(void *ssl, void *into, int size);
        int (*write)(void *ssl, const void *data, int size);
        int (*get_error)(const void *ssl, int returned);
        int (*has_pending)(const void *ssl);
        void (*set_read_ahead)(void *ssl, int yes);
        long (*ctrl)(void *ssl, int command, long argument, void *pointer);
        void (*clear_error)(void);
    } amqproxy_openssl;

    /* The first fields of `PySSLSocket` in Modules/_ssl.c, alike in CPython 3.11 to 3.14. */
    typedef struct { PyObject_HEAD PyObject *socket; void *ssl; PyObject *context; } amqproxy_connection;

    static int amqproxy_load_openssl(const char *path) {
        static const char *const names[] = {
            "SSL_read", "SSL_write", "SSL_get_error", "SSL_has_pending", "SSL_set_read_ahead", "SSL_ctrl",
            "ERR_clear_error"
        };
        void *addresses[7];
        size_t i;
        void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
        if (library == NULL) return 0;
        for (i = 0; i < 7; i++) {
            addresses[i] = dlsym(library, names[i]);
            if (addresses[i] == NULL) return 0;
        }
        memcpy(&amqproxy_openssl, addresses, sizeof addresses);
        return 1;
    }
    static void *amqproxy_ssl_of(PyObject *connection, PyObject *context) {
        amqproxy_connection *view = (amqproxy_connection *)connection;
        return view->context == context ? view->ssl : NULL;
    }
    /* SSL_CTRL_CLEAR_MODE with SSL_MODE_AUTO_RETRY, with which OpenSSL processes records without data, such as key updates
       (RFC 8446, section 4.6.3), as long as the socket has more: a peer that sends nothing else would keep a thread from
       all other connections. Without it, a read ends there once OpenSSL holds no more bytes. */
    static inline void amqproxy_bound_reads(void *ssl) { amqproxy_openssl.ctrl(ssl, 78, 0x4, NULL); }
    /* SSL_CTRL_MODE with SSL_MODE_ENABLE_PARTIAL_WRITE, _ACCEPT_MOVING_WRITE_BUFFER and _RELEASE_BUFFERS. */
    static inline void amqproxy_prepare(void *ssl) {
        amqproxy_openssl.ctrl(ssl, 33, 0x1 | 0x2 | 0x10, NULL);
        amqproxy_openssl.set_read_ahead(ssl, 1);
        amqproxy_bound_reads(ssl);
    }
    static inline int amqproxy_failed(void *ssl, int returned) {
        int number = errno;
        int reason = amqproxy_openssl.get_error(ssl, returned);
        if (reason == 2 || reason == 3) return EAGAIN;  /* SSL_ERROR_WANT_READ, _WRITE */
        /* Python would take an error left in this thread's queue for one of the next connection that it reads. */
        amqproxy_openssl.clear_error();
        switch (reason) {
        case 6: return 0;  /* SSL_ERROR_ZERO_RETURN */
        case 5: return number;  /* SSL_ERROR_SYSCALL; 0 at the end of the TCP connection */
        default: return EPROTO;
        }
    }
    /* A pump's buffers are far below 2 GiB, the maximum of an int. */
    static inline long long amqproxy_tls_read(void *ssl, void *into, size_t size, int *is_unfinished, int *failure) {
        size_t got = 0;
        int more, error;
        *is_unfinished = 0;
        if (*failure < 0) return 0;
        if (*failure) {
            errno = *failure;
            return -1;
        }
        amqproxy_openssl.clear_error();
        while (got < size) {
            errno = 0;
            more = amqproxy_openssl.read(ssl, (char *)into + got, (int)(size - got));
            if (more <= 0) {
                error = amqproxy_failed(ssl, more);
                if (got) {
                    if (error != EAGAIN) {  /* OpenSSL says it only once */
                        *is_unfinished = 1;
                        *failure = error ? error : -1;
                    }
                    return (long long)got;
                }
                errno = error;
                return error ? -1 : 0;
            }
            got += (size_t)more;
            /* After a short record, ask OpenSSL again only for bytes that it has already: that spares a system call. */
            if (more < 4096 && !amqproxy_openssl.has_pending(ssl)) return (long long)got;
        }
        *is_unfinished = 1;
        return (long long)got;
    }
    static inline long long amqproxy_tls_write(void *ssl, const void *data, size_t size) {
        size_t sent = 0;
        int more;
        amqproxy_openssl.clear_error();
        while (sent < size) {
            errno = 0;
            more = amqproxy_openssl.write(ssl, (const char *)data + sent, (int)(size - sent));
            if (more <= 0) {
                int error = amqproxy_failed(ssl, more);
                if (sent) break;
                errno = error ? error : EPIPE;
                return -1;
            }
            sent += (size_t)more;
        }
        return (long long)sent;
    }
    """
    int load_openssl "amqproxy_load_openssl" (const char *path)
    void *ssl_of "amqproxy_ssl_of" (object connection, object context)
    void bound_reads_of "amqproxy_bound_reads" (void *ssl) nogil
    void prepare "amqproxy_prepare" (void *ssl) nogil
    long long tls_read "amqproxy_tls_read" (
        void *ssl, void *into, size_t size, int *is_unfinished, int *failure
    ) nogil
    long long tls_write "amqproxy_tls_write" (void *ssl, const void *data, size_t size) nogil


cdef void *connection_of(object sock) except? NULL
cdef long long receive_tls(
    void *connection, unsigned char *into, size_t size, int *is_unfinished, int *failure
) noexcept nogil
cdef long long send_tls(void *connection, const unsigned char *data, size_t size) noexcept nogil

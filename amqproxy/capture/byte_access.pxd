# `byte_access` in C: compilers make one load of each.


cdef inline long long long_at(const unsigned char *p, Py_ssize_t at) noexcept:
    return <long long> (
        <unsigned long long> p[at] << 24
        | <unsigned long long> p[at + 1] << 16
        | <unsigned long long> p[at + 2] << 8
        | <unsigned long long> p[at + 3]
    )


cdef inline unsigned long long long_long_at(const unsigned char *p, Py_ssize_t at) noexcept:
    return <unsigned long long> long_at(p, at) << 32 | <unsigned long long> long_at(p, at + 4)

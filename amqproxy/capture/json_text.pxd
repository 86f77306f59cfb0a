# What C sees of `json_text`.


cdef Py_ssize_t put_text(
    unsigned char *out, Py_ssize_t at, const unsigned char *p, Py_ssize_t start, Py_ssize_t end
) noexcept
cdef Py_ssize_t character_size(const unsigned char *p, Py_ssize_t start, Py_ssize_t end) noexcept

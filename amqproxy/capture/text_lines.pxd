# What C sees of `text_lines`.

cimport cython

from amqproxy.capture.frame_writer cimport FrameLines, method_index, number_field
from amqproxy.compiled.byte_access cimport long_long_at, put_bytes, put_digits


@cython.final
cdef class TextLines(FrameLines):
    pass

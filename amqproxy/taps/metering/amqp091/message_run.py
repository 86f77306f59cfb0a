"""Messages that are whole and alike, one after another on one channel: nearly all there are."""

from __future__ import annotations

from amqproxy.amqp091.frame import BODY, HEADER, METHOD

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

if not cython.compiled:
    from amqproxy.compiled.byte_access import are_alike, long_at, long_long_at, put_number, short_at

RUN = 0
"""The kind of the frame that stands for a run; no frame of AMQP has it."""

_RUN = cython.declare(cython.int, RUN)
_METHOD = cython.declare(cython.int, METHOD)
_HEADER = cython.declare(cython.int, HEADER)
_BODY = cython.declare(cython.int, BODY)
_BASIC = cython.declare(cython.int, 60)
_PUBLISH = cython.declare(cython.int, 40)
_DELIVER = cython.declare(cython.int, 60)


@cython.nogil
@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _content_end(
    p: cython.p_const_uchar, at: cython.Py_ssize_t, length: cython.Py_ssize_t, number: cython.int
) -> cython.Py_ssize_t:
    """Where the content that begins at a place ends, if it is there, in at most one body; else 0."""
    end: cython.Py_ssize_t
    size: cython.ulonglong
    if length - at < 8 + 12 or p[at] != _HEADER or short_at(p, at + 1) != number:
        return 0
    end = at + 8 + cython.cast(cython.Py_ssize_t, long_at(p, at + 3))
    if end - at < 8 + 12 or end > length or p[end - 1] != 0xCE:
        return 0
    size = long_long_at(p, at + 11)
    if size == 0:
        return end
    if length - end < 8 or p[end] != _BODY or short_at(p, end + 1) != number or long_at(p, end + 3) != size:
        return 0
    end += 8 + cython.cast(cython.Py_ssize_t, size)
    return end if end <= length and p[end - 1] == 0xCE else 0


@cython.final
@cython.cclass
class MessageRun:
    """Publishes, or deliveries to one consumer with successive delivery tags, with bodies of one `size`.

    They are `count`, in so many `frames`, on the channel `number`. Of deliveries, `tag` is the first one's, and so many
    of them are `redelivered`; their consumer's tag has `consumer_size` bytes, and begins at `consumer_at` in what the
    run was read from: frames, or a single one that it was condensed to.
    """

    def __init__(self) -> None:
        self.number = 0
        self.count = self.frames = 0
        self.size = self.tag = self.redelivered = 0
        self.consumer_at = self.consumer_size = 0

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def take(
        self, is_server: cython.bint, p: cython.p_const_uchar, at: cython.Py_ssize_t, length: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Read the run that begins at a place: the place behind it, or the same one where there is none."""
        method: cython.int = _DELIVER if is_server else _PUBLISH
        start: cython.Py_ssize_t = at
        end: cython.Py_ssize_t
        tag_end: cython.Py_ssize_t = 0
        content_end: cython.Py_ssize_t
        size: cython.ulonglong
        self.count = 0
        if length - at < 8 + 4:
            return at
        self.number = short_at(p, at + 1)
        while length - at >= 8 + 4 and p[at] == _METHOD and short_at(p, at + 1) == self.number:
            end = at + 8 + cython.cast(cython.Py_ssize_t, long_at(p, at + 3))
            if end - at < 8 + 4 or end > length or p[end - 1] != 0xCE:
                break
            if p[at + 7] | (p[at + 8] ^ _BASIC) | p[at + 9] | (p[at + 10] ^ method):
                break
            content_end = _content_end(p, end, length, self.number)
            if content_end == 0:
                break
            size = long_long_at(p, end + 11)
            if self.count and size != self.size:
                break
            if is_server:
                tag_end = at + 12 + p[at + 11]
                if end - tag_end < 8 + 1 + 1:
                    break
                if self.count == 0:
                    self.tag = long_long_at(p, tag_end)
                    self.redelivered = 0
                    self.consumer_at = at + 12
                    self.consumer_size = p[at + 11]
                elif long_long_at(p, tag_end) != self.tag + self.count or not are_alike(
                    p, start + 11, at + 11, tag_end - at - 11
                ):
                    break
                self.redelivered += p[tag_end + 8] & 1
            self.size = size
            self.count += 1
            at = content_end
        self.frames = self.count * (3 if self.size else 2)
        return at

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def condense(
        self, is_server: cython.bint, p: cython.p_const_uchar, out: cython.p_uchar, at: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Write the run, which was read there, as one frame: the place behind it. It is shorter than any message."""
        i: cython.Py_ssize_t
        at = put_number(out, at, _RUN, 1)
        at = put_number(out, at, self.number, 2)
        at = put_number(out, at, 33 + self.consumer_size if is_server else 16, 4)
        at = put_number(out, at, self.count, 8)
        at = put_number(out, at, self.size, 8)
        if is_server:
            at = put_number(out, at, self.redelivered, 8)
            at = put_number(out, at, self.tag, 8)
            at = put_number(out, at, self.consumer_size, 1)
            for i in range(self.consumer_size):
                out[at + i] = p[self.consumer_at + i]
            at += self.consumer_size
        return put_number(out, at, 0xCE, 1)

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def restore(
        self, is_server: cython.bint, p: cython.p_const_uchar, at: cython.Py_ssize_t, length: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Read a run that was condensed to a frame: the place behind it, or the same one where there is none."""
        end: cython.Py_ssize_t
        if length - at < 8 + 16 or p[at] != _RUN:
            return at
        end = at + 8 + cython.cast(cython.Py_ssize_t, long_at(p, at + 3))
        if end > length or (is_server and end - at < 8 + 33):
            return at
        self.number = short_at(p, at + 1)
        self.count = long_long_at(p, at + 7)
        self.size = long_long_at(p, at + 15)
        self.frames = self.count * (3 if self.size else 2)
        if is_server:
            self.redelivered = long_long_at(p, at + 23)
            self.tag = long_long_at(p, at + 31)
            self.consumer_at = at + 40
            self.consumer_size = end - 1 - self.consumer_at
        return end

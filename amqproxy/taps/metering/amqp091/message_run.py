"""Runs of whole messages that are alike and successive on one channel, as nearly all messages are."""

from __future__ import annotations

from amqproxy.amqp091.frame import BODY, HEADER, METHOD

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

if not cython.compiled:
    from amqproxy.compiled.byte_access import are_alike, long_at, long_long_at, put_number, short_at

    def are_alike_8(p: bytes, one: int, other: int) -> bool:
        """Whether the 8 bytes at two offsets are equal; C compares them at once."""
        return p[one : one + 8] == p[other : other + 8]


RUN = 0
"""Kind of the frame that stands for a run; no AMQP frame has it."""

_RUN = cython.declare(cython.int, RUN)
_METHOD = cython.declare(cython.int, METHOD)
_HEADER = cython.declare(cython.int, HEADER)
_BODY = cython.declare(cython.int, BODY)
_BASIC = cython.declare(cython.int, 60)
_PUBLISH = cython.declare(cython.int, 40)
_DELIVER = cython.declare(cython.int, 60)


_UNBOUNDED = cython.declare(cython.longlong, 1 << 62)


@cython.final
@cython.cclass
class MessageRun:
    """Publishes, or deliveries to one consumer with successive delivery tags, with bodies of one `size`.

    There are `count`, in `frames` frames, on the channel `number`; `method_bytes` and `header_bytes` are the sizes of
    the frames of their methods and headers, unless the run was condensed. Of deliveries, `tag` is the first one's tag,
    and `redelivered` counts those marked as redelivered; their consumer tag has `consumer_size` bytes, and begins at
    `consumer_at` in the buffer that the run was read from: frames, or the single frame that it was condensed to.
    """

    def __init__(self) -> None:
        self.number = 0
        self.count = self.frames = 0
        self.method_bytes = self.header_bytes = 0
        self.size = self.tag = self.redelivered = 0
        self.consumer_at = self.consumer_size = 0

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def take(
        self,
        is_server: cython.bint,
        p: cython.p_const_uchar,
        at: cython.Py_ssize_t,
        length: cython.Py_ssize_t,
        payload_max: cython.longlong = _UNBOUNDED,
        header_max: cython.longlong = _UNBOUNDED,
    ) -> cython.Py_ssize_t:
        """Read the run that begins at `at`; return the offset after it, or `at` if there is none.

        A run ends before a frame above its limit: `header_max` for content headers, `payload_max` for others.
        """
        like: cython.Py_ssize_t = at  # the last parsed message: the next one mostly has the same layout
        header: cython.Py_ssize_t = 0
        body: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t = 0
        shift: cython.Py_ssize_t
        self.count = 0
        self.method_bytes = self.header_bytes = 0
        while True:
            shift = at - like
            if (
                shift == 0
                or length < end + shift
                or not are_alike_8(p, like, at)
                or not are_alike_8(p, like + 4, at + 4)
                or not are_alike_8(p, header - 1, header + shift - 1)
                or not are_alike_8(p, header + 7, header + shift + 7)
                or not are_alike_8(p, header + 11, header + shift + 11)
                or (self.size and not are_alike_8(p, body - 1, body + shift - 1))
                or p[end + shift - 1] != 0xCE
            ):
                if not self._parse(is_server, p, at, length, payload_max, header_max):
                    break
                like, shift = at, 0
                header, body, end = self._header, self._body, self._end
            if is_server and not self._takes_delivery(p, at, header + shift):
                break
            self.method_bytes += header - like
            self.header_bytes += body - header
            self.count += 1
            at = end + shift
        self.frames = self.count * (3 if self.size else 2)
        return at

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def _takes_delivery(self, p: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        """Whether the basic.deliver between two offsets has the next delivery tag of the run, and its consumer."""
        tag_end: cython.Py_ssize_t = at + 12 + p[at + 11]
        if end - tag_end < 8 + 1 + 1:
            return False
        if self.count == 0:
            self.tag = long_long_at(p, tag_end)
            self.redelivered = 0
            self.consumer_at = at + 12
            self.consumer_size = p[at + 11]
        elif long_long_at(p, tag_end) != self.tag + self.count or not are_alike(
            p, self.consumer_at - 1, at + 11, tag_end - at - 11
        ):
            return False
        self.redelivered += p[tag_end + 8] & 1
        return True

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def _parse(
        self,
        is_server: cython.bint,
        p: cython.p_const_uchar,
        at: cython.Py_ssize_t,
        length: cython.Py_ssize_t,
        payload_max: cython.longlong,
        header_max: cython.longlong,
    ) -> cython.bint:
        """Whether a whole message of the run begins at `at`, with at most one body frame; `_end` is set to its end."""
        header: cython.Py_ssize_t
        body: cython.Py_ssize_t
        size: cython.ulonglong
        if length - at < 8 + 4 or p[at] != _METHOD or (self.count and short_at(p, at + 1) != self.number):
            return False
        if long_at(p, at + 3) > payload_max:
            return False
        header = at + 8 + cython.cast(cython.Py_ssize_t, long_at(p, at + 3))
        if header - at < 8 + 4 or length - header < 8 + 12 or p[header - 1] != 0xCE:
            return False
        if p[at + 7] | (p[at + 8] ^ _BASIC) | p[at + 9] | (p[at + 10] ^ (_DELIVER if is_server else _PUBLISH)):
            return False
        if p[header] != _HEADER or short_at(p, header + 1) != short_at(p, at + 1):
            return False
        if long_at(p, header + 3) > header_max:
            return False
        body = header + 8 + cython.cast(cython.Py_ssize_t, long_at(p, header + 3))
        if body - header < 8 + 12 or body > length or p[body - 1] != 0xCE:
            return False
        if p[header + 7] | (p[header + 8] ^ _BASIC) | p[header + 9] | p[header + 10]:
            return False
        size = long_long_at(p, header + 11)
        if self.count and size != self.size:
            return False
        self._header = header
        self._body = self._end = body
        if size:
            if length - body < 8 or p[body] != _BODY or short_at(p, body + 1) != short_at(p, at + 1):
                return False
            if long_at(p, body + 3) != size or long_at(p, body + 3) > payload_max:
                return False
            self._end = body + 8 + cython.cast(cython.Py_ssize_t, size)
            if self._end > length or p[self._end - 1] != 0xCE:
                return False
        if self.count == 0:
            self.number = short_at(p, at + 1)
            self.size = size
        return True

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def condense(
        self, is_server: cython.bint, p: cython.p_const_uchar, out: cython.p_uchar, at: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Write the run, read from `p`, as one frame, shorter than any message; return the offset after it."""
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
        """Read a run that was condensed to a frame; return the offset after it, or `at` if there is none."""
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

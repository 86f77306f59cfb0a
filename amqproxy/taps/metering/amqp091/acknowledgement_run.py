"""Runs of acknowledgements of successive delivery tags on one channel, as most clients settle deliveries."""

from __future__ import annotations

from amqproxy.amqp091.frame import METHOD
from amqproxy.amqp091.methods import BasicAck, BasicNack, BasicReject

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

if not cython.compiled:
    from amqproxy.compiled.byte_access import long_at, long_long_at, put_number, short_at
    from amqproxy.taps.metering.amqp091.message_run import are_alike_8

ACKNOWLEDGEMENTS = 0xFF
"""Kind of the frame that stands for a run; no AMQP frame has it."""

SIZE = 26
"""Size in bytes of that frame: a 7-byte header, the number of tags, the first tag, the method, its bits and the end."""

_KIND = cython.declare(cython.int, ACKNOWLEDGEMENTS)
_SIZE = cython.declare(cython.Py_ssize_t, SIZE)
_FRAME = cython.declare(cython.Py_ssize_t, 21)
"""Size in bytes of a frame of basic.ack, basic.nack or basic.reject: each has a tag and a byte of bits."""

_METHOD = cython.declare(cython.int, METHOD)
_BASIC = cython.declare(cython.int, BasicAck.class_id)
_ACK = cython.declare(cython.int, BasicAck.method_id)
_NACK = cython.declare(cython.int, BasicNack.method_id)
_REJECT = cython.declare(cython.int, BasicReject.method_id)


@cython.final
@cython.cclass
class AcknowledgementRun:
    """At least two frames of one `method`, with the same bits (`flags`) and successive tags, on the channel `number`.

    There are `count`, the first with the tag `tag`; no tag is 0. A server's are publisher confirms. The run is read
    from frames, or from the single frame that it was condensed to.
    """

    def __init__(self) -> None:
        self.number = 0
        self.method = 0
        self.flags = 0
        self.count = 0
        self.tag = 0

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def take(
        self, is_server: cython.bint, p: cython.p_const_uchar, at: cython.Py_ssize_t, length: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Read the run that begins at `at`; return the offset after it, or `at` if there is none."""
        start: cython.Py_ssize_t = at
        if length - at < 2 * _FRAME or not _is_acknowledgement(is_server, p, at):
            return at
        self.number = short_at(p, at + 1)
        self.method = p[at + 10]
        self.tag = long_long_at(p, at + 11)
        self.flags = p[at + 19]
        self.count = 1
        at += _FRAME
        while (
            length - at >= _FRAME
            and are_alike_8(p, start, at)
            and are_alike_8(p, start + 3, at + 3)
            and long_long_at(p, at + 11) == self.tag + self.count
            and self.tag + self.count != 0
            and p[at + 19] == self.flags
            and p[at + 20] == 0xCE
        ):
            self.count += 1
            at += _FRAME
        return at if self.count > 1 else start

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def condense(self, out: cython.p_uchar, at: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Write the run as one frame, which is shorter than two acknowledgements; return the offset after it."""
        at = put_number(out, at, _KIND, 1)
        at = put_number(out, at, self.number, 2)
        at = put_number(out, at, _SIZE - 8, 4)
        at = put_number(out, at, self.count, 8)
        at = put_number(out, at, self.tag, 8)
        at = put_number(out, at, self.method, 1)
        at = put_number(out, at, self.flags, 1)
        return put_number(out, at, 0xCE, 1)

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def restore(self, p: cython.p_const_uchar, at: cython.Py_ssize_t, length: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Read a run that was condensed to a frame; return the offset after it, or `at` if there is none."""
        end: cython.Py_ssize_t = at + _SIZE
        if length < end or p[at] != _KIND:
            return at
        self.number = short_at(p, at + 1)
        self.count = long_long_at(p, at + 7)
        self.tag = long_long_at(p, at + 15)
        self.method = p[at + 23]
        self.flags = p[at + 24]
        return end


@cython.nogil
@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_acknowledgement(is_server: cython.bint, p: cython.p_const_uchar, at: cython.Py_ssize_t) -> cython.bint:
    """Whether the 21 bytes at `at` are an acknowledgement of a tag other than 0; a server sends no basic.reject."""
    method: cython.int = p[at + 10]
    return (
        p[at] == _METHOD
        and long_at(p, at + 3) == _FRAME - 8
        and p[at + 7] | (p[at + 8] ^ _BASIC) | p[at + 9] == 0
        and (method in (_ACK, _NACK) or (method == _REJECT and not is_server))
        and p[at + 20] == 0xCE
        and long_long_at(p, at + 11) != 0
    )

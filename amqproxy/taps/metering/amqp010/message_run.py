"""Runs of whole 0-10 messages that are alike and successive on one channel, as nearly all messages are."""

from __future__ import annotations

from amqproxy.amqp010.commands import MessageTransfer
from amqproxy.amqp010.domains import AcceptMode
from amqproxy.amqp010.frame import BODY, COMMAND, COMMAND_TRACK, HEADER, OVERHEAD

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

if not cython.compiled:
    from amqproxy.compiled.byte_access import are_alike, long_at, put_number, short_at

RUN = 0xFF
"""Flags of the frame that stands for a run; no 0-10 frame has them."""

SIZE = 21
"""Size in bytes of the frame that stands for a run: frame header, count, body size, and whether they are accepted.
A message has at least 26.
"""

_RUN = cython.declare(cython.int, RUN)
_SIZE = cython.declare(cython.Py_ssize_t, SIZE)
_COMMAND = cython.declare(cython.int, COMMAND)
_COMMAND_TRACK = cython.declare(cython.int, COMMAND_TRACK)
_HEADER = cython.declare(cython.int, HEADER)
_BODY = cython.declare(cython.int, BODY)
_OVERHEAD = cython.declare(cython.Py_ssize_t, OVERHEAD)
_TRANSFER = cython.declare(cython.int, MessageTransfer.class_code << 8 | MessageTransfer.method_code)
_NO_ACCEPTANCE = cython.declare(cython.int, AcceptMode.NONE)


@cython.nogil
@cython.cfunc
@cython.exceptval(check=False)
def arguments_at(p: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the offset of the packing flags of the command that begins at `at`; -1 if it is malformed."""
    return at + 4 if end - at >= 6 and p[at + 2] == 1 and p[at + 3] <= 1 else -1


@cython.nogil
@cython.cfunc
@cython.exceptval(check=False)
def needs_no_acceptance(p: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
    """Whether the message.transfer between two offsets needs no acceptance; `False` if it is malformed."""
    present: cython.int
    mode: cython.int = -1
    at = arguments_at(p, at, end)
    if at < 0:
        return False
    present = p[at] | p[at + 1] << 8
    at += 2
    if present & 1 and at < end:  # its destination
        at += 1 + p[at]
    if present & 2 and at < end:
        mode = p[at]
    at += (present >> 1 & 1) + (present >> 2 & 1)
    return mode == _NO_ACCEPTANCE and present < 8 and at == end


@cython.nogil
@cython.cfunc
@cython.exceptval(check=False)
def may_be_redelivered(p: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
    """Whether the delivery-properties in a header may have the redelivered bit; arbitrary for a malformed header."""
    size: cython.longlong
    while end - at >= 8:
        size = long_at(p, at)
        if p[at + 4] == 4 and p[at + 5] == 1:
            return p[at + 6] & 4 != 0
        if size > end - at - 4:
            return False
        at += 4 + size
    return False


@cython.final
@cython.cclass
class Amqp010MessageRun:
    """Successive transfers with bodies of one `size`; a server's have the same arguments and are not redelivered.

    There are `count`, on one `channel`; `is_accepted` is whether a server's need no acceptance. The run is read from
    frames, or from the single frame that it was condensed to.
    """

    def __init__(self) -> None:
        self.channel = 0
        self.count = self.size = 0
        self.is_accepted = False

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def take(
        self, is_server: cython.bint, p: cython.p_const_uchar, at: cython.Py_ssize_t, length: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Read the run that begins at `at`; return the offset after it, or `at` if there is none.

        Each transfer has a header in one frame, and at most one body frame; no server transfer is redelivered.
        """
        start: cython.Py_ssize_t = at
        header: cython.Py_ssize_t
        end: cython.Py_ssize_t
        size: cython.Py_ssize_t
        self.count = 0
        while (
            length - at >= _OVERHEAD + 2
            and p[at] == 0x0B
            and p[at + 1] == _COMMAND
            and short_at(p, at + 12) == _TRANSFER
            and p[at + 5] == _COMMAND_TRACK
        ):
            header = at + short_at(p, at + 2)
            if header < at + _OVERHEAD + 2 or length - header < _OVERHEAD or p[header + 1] != _HEADER:
                break
            end = header + short_at(p, header + 2)
            if end < header + _OVERHEAD or end > length or not are_alike(p, start + 6, header + 6, 2):
                break
            if is_server and may_be_redelivered(p, header + _OVERHEAD, end):
                break
            size = 0
            if p[header] == 3:
                if length - end < _OVERHEAD or p[end] != 7 or p[end + 1] != _BODY:
                    break
                size = short_at(p, end + 2) - _OVERHEAD
                if size < 0 or not are_alike(p, start + 6, end + 6, 2):
                    break
                end += _OVERHEAD + size
                if end > length:
                    break
            elif p[header] != 7:
                break
            if self.count == 0:
                self.size = size
                self.is_accepted = is_server and needs_no_acceptance(p, at + _OVERHEAD, header)
            elif (
                size != self.size
                or not are_alike(p, start + 6, at + 6, 2)
                or (is_server and not _is_same_transfer(p, start, at, header))
            ):
                break
            self.count += 1
            at = end
        if self.count:
            self.channel = short_at(p, start + 6)
        return at

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def condense(self, out: cython.p_uchar, at: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Write the run as one frame, which is shorter than any message; return the offset after it."""
        at = put_number(out, at, _RUN, 1)
        at = put_number(out, at, 0, 1)
        at = put_number(out, at, _SIZE, 2)
        at = put_number(out, at, 0, 2)
        at = put_number(out, at, self.channel, 2)
        at = put_number(out, at, 0, 4)
        at = put_number(out, at, self.count, 4)
        at = put_number(out, at, self.size, 4)
        return put_number(out, at, self.is_accepted, 1)

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def restore(self, p: cython.p_const_uchar, at: cython.Py_ssize_t, length: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Read a run that was condensed to a frame; return the offset after it, or `at` if there is none."""
        end: cython.Py_ssize_t = at + _SIZE
        if length < end or p[at] != _RUN:
            return at
        self.channel = short_at(p, at + 6)
        self.count = long_at(p, at + 12)
        self.size = long_at(p, at + 16)
        self.is_accepted = p[at + 20] != 0
        return end


@cython.nogil
@cython.cfunc
@cython.exceptval(check=False)
def _is_same_transfer(
    p: cython.p_const_uchar, one: cython.Py_ssize_t, other: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.bint:
    """Whether two message.transfer commands have the same arguments."""
    size: cython.Py_ssize_t = end - other
    return short_at(p, one + 2) == size and are_alike(p, one + _OVERHEAD, other + _OVERHEAD, size - _OVERHEAD)

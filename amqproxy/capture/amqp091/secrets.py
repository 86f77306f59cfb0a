"""Masking of secrets in the bytes of 0-9-1 frames: SASL responses, and the new secret of connection.update-secret.

Each of their bytes becomes an asterisk, except the user name of PLAIN and AMQPLAIN. If a frame is malformed, everything
that could belong to a secret is replaced.
"""

from __future__ import annotations

from amqproxy.amqp091.methods import BY_INDEX, ConnectionStartOk
from amqproxy.capture.amqp091.frame_cuts import secret_frame

_MASK = b"*"
_METHOD = 7
_ARGUMENTS = 11
_START_OK = ConnectionStartOk.method_id
_SIGNATURES = tuple(each.class_id.to_bytes(2) + each.method_id.to_bytes(2) for each in BY_INDEX if each.secret)


def masked(data: bytes) -> bytes:
    """Return whole frames with their secrets masked: `data` itself if there are none."""
    at = secret_frame(data, 0)
    if at < 0:
        return data
    copy = bytearray(data)
    while at >= 0:
        end = at + 8 + int.from_bytes(data[at + 3 : at + 7])
        _mask_method(copy, at, min(end, len(data) + 1) - 1)
        at = secret_frame(data, end)
    return bytes(copy)


def masked_rubbish(data: bytes) -> bytes:
    """Mask bytes that are not whole frames: everything after a possible secret-bearing method is replaced."""
    found = [at for at in (data.find(each) for each in _SIGNATURES) if at >= 0]
    if not found:
        return data
    keep = min(found) + 4
    return data[:keep] + _MASK * (len(data) - keep)


def _mask_method(data: bytearray, at: int, end: int) -> None:
    """Mask the secret of the method frame at `at`, whose payload ends before `end`."""
    start = at + _ARGUMENTS
    try:
        spans = _of_start_ok(data, start, end) if data[at + 10] == _START_OK else _of_secret(data, start, end)
    except _Malformed as malformed:
        spans = [(malformed.start, end)]
    for begin, stop in spans:
        data[begin:stop] = _MASK * (stop - begin)


class _Malformed(Exception):
    """The method is malformed: from `start` on, anything could be a secret."""

    def __init__(self, start: int) -> None:
        super().__init__(start)
        self.start = start


def _of_secret(data: bytearray, start: int, end: int) -> list[tuple[int, int]]:
    """Return the span of the secret of secure-ok, and of update-secret, which is followed by a reason."""
    stop = _long(data, start, end, start)
    if stop != end and _short(data, stop, end, start) != end:
        raise _Malformed(start)
    return [(start + 4, stop)]


def _of_start_ok(data: bytearray, start: int, end: int) -> list[tuple[int, int]]:
    table = _long(data, start, end, start)
    mechanism = _short(data, table, end, table)
    response = _long(data, mechanism, end, table)
    if _short(data, response, end, table) != end:
        raise _Malformed(table)
    name = bytes(data[table + 1 : mechanism])
    begin = mechanism + 4
    if name == b"PLAIN":
        parts = bytes(data[begin:response]).split(b"\0", 2)
        if len(parts) == 3:
            return [(response - len(parts[2]), response)]
    elif name == b"AMQPLAIN":
        try:
            return _of_amqplain(data, begin, response)
        except _Malformed:
            pass
    return [(begin, response)]


def _of_amqplain(data: bytearray, start: int, end: int) -> list[tuple[int, int]]:
    """Return the spans of the values in a table of strings, except LOGIN."""
    spans = []
    at = start
    while at < end:
        value = _short(data, at, end, start)
        if data[value : value + 1] != b"S":
            raise _Malformed(start)
        stop = _long(data, value + 1, end, start)
        if data[at + 1 : value] != b"LOGIN":
            spans.append((value + 5, stop))
        at = stop
    return spans


def _long(data: bytearray, at: int, end: int, start: int) -> int:
    """Return the end of the long string or table at `at`."""
    stop = at + 4 + int.from_bytes(data[at : at + 4])
    if at + 4 > end or stop > end:
        raise _Malformed(start)
    return stop


def _short(data: bytearray, at: int, end: int, start: int) -> int:
    """Return the end of the short string at `at`."""
    if at >= end or at + 1 + data[at] > end:
        raise _Malformed(start)
    return at + 1 + data[at]

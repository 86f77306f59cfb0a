"""Texts as JSON, written into a buffer that has room: at most six bytes of JSON for each byte. This may be compiled."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from amqproxy.compiled import _cython as cython


def _escape_table() -> bytes:
    """Return a code for each byte: 0 to keep it, 1 if it is not ASCII, 2 for \\u00XX, otherwise its escape letter."""
    table = bytearray([2] * 32 + [0] * 96 + [1] * 128)
    for byte, letter in zip(b'"\\\b\f\n\r\t', b'"\\bfnrt', strict=True):
        table[byte] = letter
    return bytes(table)


_ESCAPES = cython.declare(bytes, _escape_table())
_HEX = cython.declare(bytes, b"0123456789abcdef")


@cython.cfunc
@cython.exceptval(check=False)
def put_text(
    out: cython.p_uchar,
    at: cython.Py_ssize_t,
    p: cython.p_const_uchar,
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Write a text in quotes, with the escapes that JSON requires; -1 if it is not UTF-8."""
    escapes: cython.p_const_uchar = _ESCAPES
    digits: cython.p_const_uchar = _HEX
    escape: cython.int
    size: cython.Py_ssize_t
    out[at] = 34
    at += 1
    while start < end:
        escape = escapes[p[start]]
        if escape == 0:
            out[at] = p[start]
            at += 1
            start += 1
        elif escape == 1:
            size = character_size(p, start, end)
            if size == 0:
                return -1
            while size:
                out[at] = p[start]
                at += 1
                start += 1
                size -= 1
        elif escape == 2:
            out[at] = 92
            out[at + 1] = 117
            out[at + 2] = 48
            out[at + 3] = 48
            out[at + 4] = digits[p[start] >> 4]
            out[at + 5] = digits[p[start] & 15]
            at += 6
            start += 1
        else:
            out[at] = 92
            out[at + 1] = escape
            at += 2
            start += 1
    out[at] = 34
    return at + 1


@cython.cfunc
@cython.exceptval(check=False)
def character_size(p: cython.p_const_uchar, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the size of the non-ASCII character at a place; 0 if it is not valid UTF-8."""
    first: cython.int = p[start]
    size: cython.Py_ssize_t
    least: cython.int = 0x80
    most: cython.int = 0xBF
    if 0xC2 <= first <= 0xDF:
        size = 2
    elif 0xE0 <= first <= 0xEF:
        size = 3
        if first == 0xE0:
            least = 0xA0  # otherwise the encoding would be overlong
        elif first == 0xED:
            most = 0x9F  # surrogates are not characters
    elif 0xF0 <= first <= 0xF4:
        size = 4
        if first == 0xF0:
            least = 0x90
        elif first == 0xF4:
            most = 0x8F  # U+10FFFF is the last character
    else:
        return 0
    if end - start < size or not least <= p[start + 1] <= most:
        return 0
    if size > 2 and p[start + 2] & 0xC0 != 0x80:
        return 0
    if size > 3 and p[start + 3] & 0xC0 != 0x80:
        return 0
    return size

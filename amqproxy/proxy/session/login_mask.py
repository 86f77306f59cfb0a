"""Masking of the login of a client whose protocol is not decoded, before its bytes are shown to taps."""

from __future__ import annotations

import re
from enum import Enum

MAX_FRAME = 16 * 1024
"""Longest login frame in bytes that is parsed. AMQP 1.0 allows 512 (section 5.3.1); tokens as passwords are longer."""

_MASK = b"*"
_SASL = "1.0 (SASL)"
_LIKE_0_9_1 = frozenset({"0-8", "0-9-1 (Qpid)"})

_INIT, _RESPONSE = 0x41, 0x43
_MECHANISM = re.compile(rb"[A-Z0-9_-]{1,20}")
"""Name of a SASL mechanism (RFC 4422, section 3.1); the length of a malformed one could cover the response."""
_SYMBOL = {0xA3: 1, 0xB3: 4}
_BINARY = {0xA0: 1, 0xB0: 4}
_LIST = {0xC0: 1, 0xD0: 4}
"""Size in bytes of the length that follows each type code (sections 1.6.19 to 1.6.22 of AMQP 1.0)."""

_METHOD_PAYLOAD = 7
_SECRETS = (b"\x00\x0a\x00\x0b", b"\x00\x0a\x00\x15")
"""connection.start-ok and connection.secure-ok of 0-8."""
_OPEN = b"\x00\x0a\x00\x28"
_HEADER_SIZE = 8


class _State(Enum):
    LOGIN = "login"
    OVER = "over"
    LOST = "lost"
    """A frame was malformed: what follows could be a secret."""


class LoginMask:
    """Replaces the SASL responses in the bytes that a client sends behind its protocol header.

    Returns whole frames while the login lasts, and any bytes behind it. Of PLAIN the user name is kept. If a frame is
    malformed or longer than `MAX_FRAME`, everything from there on is masked. `protocol` is as `recognise` names it.
    """

    def __init__(self, protocol: str) -> None:
        self._is_sasl = protocol == _SASL
        self._state = _State.LOGIN if self._is_sasl or protocol in _LIKE_0_9_1 else _State.OVER
        self._waiting = b""

    def feed(self, data: bytes) -> bytes:
        """Return the bytes that may be shown: of those received so far, the ones not yet returned."""
        if self._state is _State.OVER:
            return data
        shown, at = bytearray(), 0
        data = self._waiting + data
        while at < len(data) and self._state is _State.LOGIN:
            head = data[at : at + _HEADER_SIZE]
            size = _sasl_frame_size(head) if self._is_sasl else _method_frame_size(head)
            if not 0 <= size <= MAX_FRAME:
                self._state = _State.LOST
            elif not size or at + size > len(data):
                break
            else:
                shown += self._masked(data[at : at + size])
                at += size
        rest, self._waiting = data[at:], b""
        if self._state is _State.LOGIN:
            self._waiting = rest
        else:
            shown += rest if self._state is _State.OVER else _MASK * len(rest)
        return bytes(shown)

    def _masked(self, frame: bytes) -> bytes:
        if not self._is_sasl:
            return self._masked_method(frame)
        if frame[:4] == b"AMQP":  # the header that ends the SASL layer, section 5.3.2
            self._state = _State.OVER
            return frame
        return _masked_sasl(frame)

    def _masked_method(self, frame: bytes) -> bytes:
        method = frame[_METHOD_PAYLOAD : _METHOD_PAYLOAD + 4]
        if method == _OPEN:
            self._state = _State.OVER
        if method not in _SECRETS:
            return frame
        kept = frame[: _METHOD_PAYLOAD + 4]
        return kept + _MASK * (len(frame) - len(kept) - 1) + frame[-1:]


def _sasl_frame_size(data: bytes) -> int:
    """Return the size of the frame or header at the start of `data`, 0 if more bytes are needed, -1 if it is none."""
    if b"AMQP".startswith(data[:4]):
        return _HEADER_SIZE
    if len(data) < 6:
        return 0
    size, offset, kind = int.from_bytes(data[:4]), data[4], data[5]
    return size if kind == 1 and offset >= 2 and size >= 4 * offset else -1


def _method_frame_size(data: bytes) -> int:
    """Like `_sasl_frame_size`, for method frames, of section 4.2.3."""
    if len(data) < _METHOD_PAYLOAD:
        return 0
    return int.from_bytes(data[3:7]) + _METHOD_PAYLOAD + 1 if data[0] == 1 else -1


def _masked_sasl(frame: bytes) -> bytes:
    """Return a SASL frame without the response of sasl-init or sasl-response, sections 5.3.3.2 and 5.3.3.4.

    What follows the last field that is well formed is masked.
    """
    at = known = frame[4] * 4
    try:
        if frame[at] != 0 or frame[at + 1] != 0x53:
            return _hidden(frame, known)
        code = frame[at + 2]
        at += 4 + 2 * _LIST[frame[at + 3]]
        if at >= len(frame):
            return _hidden(frame, known)
        known, mechanism = at, b""
        if code == _INIT:
            start = at + 1 + _SYMBOL[frame[at]]
            at = start + int.from_bytes(frame[at + 1 : start])
            mechanism = frame[start:at]
            if not _MECHANISM.fullmatch(mechanism):
                return _hidden(frame, known)
        elif code != _RESPONSE:
            return _hidden(frame, known)
        known = at
        if at == len(frame) or frame[at] == 0x40:  # no initial response
            return frame
        start = at + 1 + _BINARY[frame[at]]
        end = start + int.from_bytes(frame[at + 1 : start])
    except (IndexError, KeyError):
        return _hidden(frame, known)
    if end > len(frame):
        return _hidden(frame, known)
    parts = frame[start:end].split(b"\0", 2)
    if mechanism == b"PLAIN" and len(parts) == 3:
        start = end - len(parts[2])
    return frame[:start] + _MASK * (end - start) + frame[end:]


def _hidden(frame: bytes, at: int) -> bytes:
    return frame[:at] + _MASK * (len(frame) - at)

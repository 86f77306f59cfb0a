"""Masking of secrets in the bytes of AMQP 0-10 frames: SASL responses are replaced by asterisks.

The user name of the mechanisms PLAIN and SCRAM is kept. If a control is malformed, or spans several frames, everything
that could belong to a secret is replaced.
"""

from __future__ import annotations

from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import BODY, CONTROL, FIRST_FRAME, HEADER, OVERHEAD, WHOLE_SEGMENT, Frame
from amqproxy.amqp010.methods import BY_INDEX
from amqproxy.capture.amqp010.frame_cuts import frame_bounds

_MASK = b"*"
_CODE = 2
_SIGNATURES = tuple(bytes([each.class_code, each.method_code]) for each in BY_INDEX if each.secret)


def masked(data: bytes) -> bytes:
    """Return whole frames of a client with their secrets masked: `data` itself if there are none."""
    copy: bytearray | None = None
    for start, end in frame_bounds(data):
        span = _secret(data, start, end)
        if span is not None:
            copy = copy or bytearray(data)
            copy[span[0] : span[1]] = _MASK * (span[1] - span[0])
    return data if copy is None else bytes(copy)


def masked_rubbish(data: bytes) -> bytes:
    """Mask bytes that are not whole frames: everything after a possible secret-bearing control is replaced."""
    found = [at for at in (data.find(each) for each in _SIGNATURES) if at >= 0]
    if not found:
        return data
    keep = min(found) + _CODE
    return data[:keep] + _MASK * (len(data) - keep)


def _secret(data: bytes, start: int, end: int) -> tuple[int, int] | None:
    """Return the span of the secret in a frame, or None."""
    payload = start + OVERHEAD
    if end - payload <= 0 or data[start : start + 4] == b"AMQP":
        return None
    kind = data[start + 1]
    if kind in (HEADER, BODY):
        return None
    if not data[start] & FIRST_FRAME:  # continuation of an earlier one, such as a long Kerberos ticket
        is_first_channel = int.from_bytes(data[start + 6 : start + 8]) == 0
        return (payload, end) if kind == CONTROL and is_first_channel else None
    if data[payload : payload + _CODE] not in _SIGNATURES:
        return None
    whole = payload + _CODE, end
    if kind != CONTROL or data[start] & WHOLE_SEGMENT != WHOLE_SEGMENT:
        return whole
    try:
        method = Frame(data[start:end]).method
    except ProtocolError:
        return whole
    response = method.response
    if response is None:
        return None
    locale = getattr(method, "locale", None)
    stop = end - (0 if locale is None else 1 + len(locale.encode("utf-8", "surrogateescape")))
    begin = stop - len(response)
    if data[begin:stop] != response:
        return whole
    return stop - _after_user(getattr(method, "mechanism", None) or "", response), stop


def _after_user(mechanism: str, response: bytes) -> int:
    """Return how many bytes of a first response follow the user name; all if the end of the name is unknown."""
    if mechanism == "PLAIN":
        parts = response.split(b"\0", 2)
        return len(parts[-1]) if len(parts) == 3 else len(response)
    if mechanism.startswith("SCRAM-"):
        parts = response.split(b",", 3)
        return len(parts[-1]) if len(parts) == 4 and parts[2].startswith(b"n=") else len(response)
    return len(response)

"""The first bytes of a connection, and which protocol they belong to (section 4.2.2)."""

from __future__ import annotations

HEADER = b"AMQP\x00\x00\x09\x01"
"""What a 0-9-1 client sends first, and what a server answers to anything else before it closes."""

NAME = "0-9-1"

LIKE_0_9_1 = frozenset({NAME, "0-9"})
"""The protocols, as `recognise` names them, whose clients RabbitMQ takes and goes on with in 0-9-1.

With those of 0-8 it really speaks 0-8: other numbers and arguments in frames of the same shape.
"""

_VERSIONS = {
    b"\x00\x00\x09\x01": NAME,
    b"\x01\x01\x08\x00": "0-8",
    b"\x01\x01\x00\x09": "0-9",
    b"\x01\x01\x09\x01": "0-9-1 (Qpid)",
    b"\x01\x01\x00\x0a": "0-10",
    b"\x00\x01\x00\x00": "1.0",
    b"\x02\x01\x00\x00": "1.0 (TLS)",
    b"\x03\x01\x00\x00": "1.0 (SASL)",
}
_HTTP = (b"GET ", b"PUT ", b"HEAD", b"POST", b"PRI ", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC")


def recognise(data: bytes) -> str | None:
    """The protocol whose connections begin with `data`; None while more bytes are needed.

    "0-9-1", "0-8", "0-9", "0-10", "1.0", "1.0 (SASL)" and the like for AMQP; "TLS", "HTTP", "RabbitMQ stream"; "AMQP
    a.b.c.d" for a header of an unknown version; "unknown". Eight bytes always suffice.
    """
    if data[:4] == b"AMQP":
        if len(data) < 8:
            return None
        version = data[4:8]
        return _VERSIONS.get(version, "AMQP " + ".".join(map(str, version)))
    if b"AMQP".startswith(data):
        return None
    if data[0] == 22 and len(data) > 1:
        return "TLS" if data[1] == 3 else "unknown"
    if any(start.startswith(data[:4]) for start in _HTTP):
        return "HTTP" if len(data) >= 4 else None
    if len(data) < 8:
        return None
    if data[:2] == b"\x00\x00" and data[4:8] == b"\x00\x11\x00\x01":
        return "RabbitMQ stream"  # a frame's size, then peer-properties (17) version 1
    return "unknown"

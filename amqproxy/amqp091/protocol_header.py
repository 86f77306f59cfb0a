"""First bytes of a connection, and detection of its protocol (section 4.2.2)."""

from __future__ import annotations

import re

HEADER = b"AMQP\x00\x00\x09\x01"
"""Protocol header of a 0-9-1 client, with which a server also answers any other header before it closes."""

NAME = "0-9-1"

LIKE_0_9_1 = frozenset({NAME, "0-9"})
"""Protocols, as named by `recognise`, whose clients RabbitMQ accepts and continues with in 0-9-1.

With 0-8 clients it really uses 0-8: other numbers and arguments in frames of the same shape.
"""

DECODED = frozenset({NAME, "0-10"})
"""Protocols, as named by `recognise`, whose frames are decoded."""

OPAQUE = frozenset({"0-8", "0-9-1 (Qpid)", "1.0", "1.0 (TLS)", "1.0 (SASL)"})
"""Protocols, as named by `recognise`, that are not decoded, and may be relayed unread.

After the first two headers RabbitMQ speaks 0-8. Its frames look like those of 0-9-1, but connection.close has
another index and channel.open-ok no field, among other differences.
"""

_FRAME_TYPES = frozenset((1, 2, 3, 8))

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
_HTTP = (b"GET ", b"PUT ", b"HEAD", b"POST", b"PRI ", b"DELE", b"OPTI", b"PATC", b"TRAC")
_FOREIGN = (
    (re.compile(rb"\x10[\x80-\xff]{0,3}[\x00-\x7f]\x00[\x04\x06]M"), "MQTT"),  # CONNECT and its remaining length
    (re.compile(rb"(?:CONNECT|STOMP)\r?\n|CONNECT\r"), "STOMP"),
    (re.compile(rb"CONNECT "), "HTTP"),
    (re.compile(rb"PROXY |\r\n\r\n\0\r\nQ"), "PROXY protocol"),
)
"""First bytes of other protocols' clients; eight bytes suffice."""

_ANSWERS = (
    (re.compile(rb"HTTP/"), "HTTP"),
    (re.compile(rb"[\x15\x16]\x03[\x00-\x04]"), "TLS"),
    (re.compile(rb"ERROR\r?\n|CONNECTED"), "STOMP"),
    (re.compile(rb"\x20[\x02-\x7f][\x00\x01][\x00-\xff]"), "MQTT"),  # CONNACK
    (re.compile(rb"SSH-"), "SSH"),
)
"""First bytes of other protocols' servers."""


def recognise(data: bytes) -> str | None:
    """Return the protocol of a connection that begins with `data`; `None` if more bytes are needed.

    "0-9-1", "0-8", "0-9", "0-10", "1.0", "1.0 (SASL)" and the like for AMQP; "AMQP a.b.c.d" for a header of an unknown
    version; "TLS", "HTTP", "MQTT", "STOMP", "PROXY protocol", "RabbitMQ stream"; "unknown". Eight bytes always suffice.
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
        return "RabbitMQ stream"  # the frame size, then peer-properties (17) version 1
    return next((name for start, name in _FOREIGN if start.match(data)), "unknown")


def recognise_answer(data: bytes) -> str:
    """Return the protocol of a server that begins with `data`: "AMQP 1.0" and the like, "HTTP", "TLS", "STOMP",
    "MQTT", "SSH"; "" if unknown, as for an AMQP server that begins with a frame.
    """
    if data[:4] == b"AMQP" and len(data) >= 8:
        name = recognise(data) or ""
        return name if name.startswith("AMQP") else f"AMQP {name}"
    return next((name for start, name in _ANSWERS if start.match(data)), "")


def foreign_answer(data: bytes, asked: str = NAME) -> str:
    """Return the error if a server's first bytes do not begin a connection of the AMQP version `asked`; else "".

    `asked` is the client's version, as named by `recognise`.
    """
    name = recognise_answer(data)
    if name:
        return f"the server speaks {name}, not AMQP {asked}"
    if not data or (asked == NAME and data[0] in _FRAME_TYPES):
        return ""
    return f"the server does not speak AMQP {asked}: it begins with {bytes(data[:16])!r}"

"""Protocol header of a peer, which a server answers with its own (section 4.3)."""

from __future__ import annotations

HEADER = b"AMQP\x01\x01\x00\x0a"
"""Protocol header of AMQP 0-10 over TCP, sent by clients, and by servers as an answer to any header."""

SIZE = 8

NAME = "0-10"

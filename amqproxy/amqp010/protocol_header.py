"""The first bytes of a connection: a peer's header, which a server answers with its own (section 4.3)."""

from __future__ import annotations

HEADER = b"AMQP\x01\x01\x00\x0a"
"""AMQP 0-10 over TCP: what its client begins with, and what its server answers, to this as to any other."""

SIZE = 8

NAME = "0-10"

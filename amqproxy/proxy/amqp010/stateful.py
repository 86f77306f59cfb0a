"""Controls and commands that change the state shared by the peers of a connection."""

from __future__ import annotations

from amqproxy.amqp010 import commands, controls
from amqproxy.amqp010.methods import BY_INDEX

DEFINED = (commands, controls)
"""Modules that must be imported so that their classes are in the 0-10 method table."""

_ATTACHMENT = tuple(
    f"session.{name}" for name in ("attach", "attached", "detach", "detached", "request-timeout", "timeout")
)
_NUMBERING = ("session.command-point", "session.gap")

STATEFUL = bytes(
    [
        cls.name in (*_ATTACHMENT, "execution.exception")
        or (cls.name.startswith("connection.") and cls.name != "connection.heartbeat")
        for cls in BY_INDEX
    ]
)
"""A 1 at the index of each method that changes the connection state or the sessions attached to its channels."""

KEPT = bytes([STATEFUL[cls.index] or cls.name in _NUMBERING for cls in BY_INDEX])
"""Like `STATEFUL`, with the controls that change the ids of commands: a pump forwards none of these."""

"""Controls and commands that change what the peers of a connection have agreed."""

from __future__ import annotations

from amqproxy.amqp010 import commands, controls
from amqproxy.amqp010.methods import BY_INDEX

DEFINED = (commands, controls)
"""The modules whose classes are in the table once they are imported."""

"""The modules whose classes are in the table of AMQP 0-10 once they are imported."""

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
"""A 1 at the index of each that changes the connection, or which sessions are attached to its channels."""

KEPT = bytes([STATEFUL[cls.index] or cls.name in _NUMBERING for cls in BY_INDEX])
"""Like `STATEFUL`, with the controls that change the ids of commands: a pump forwards none of these."""

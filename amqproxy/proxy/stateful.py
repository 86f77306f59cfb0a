"""Which methods change what a connection's peers have agreed."""

from __future__ import annotations

from amqproxy.amqp010 import commands, controls
from amqproxy.amqp010.methods import BY_INDEX as AMQP010_BY_INDEX
from amqproxy.amqp091.frame_reader import EVERY_METHOD
from amqproxy.amqp091.methods import BY_NAME
from amqproxy.amqp091.transitions import CLIENT, SERVER


def _all_but(*names: str) -> bytes:
    wanted = bytearray(EVERY_METHOD)
    for name in names:
        wanted[BY_NAME[name].index] = 0
    return bytes(wanted)


STATEFUL = {
    CLIENT: _all_but("basic.publish", "basic.ack", "basic.nack", "basic.reject"),
    SERVER: _all_but("basic.deliver", "basic.return", "basic.ack", "basic.nack"),
}
"""Of each sender, the methods that change what the legs have agreed. The others, which are nearly
all there are, need not be handed over to be relayed."""

DEFINED = (commands, controls)
"""The modules whose classes are in the table of AMQP 0-10 once they are imported."""

_ATTACHMENT = tuple(
    f"session.{name}" for name in ("attach", "attached", "detach", "detached", "request-timeout", "timeout")
)
_NUMBERING = ("session.command-point", "session.gap")

AMQP010_STATEFUL = bytes(
    [
        cls.name in (*_ATTACHMENT, "execution.exception")
        or (cls.name.startswith("connection.") and cls.name != "connection.heartbeat")
        for cls in AMQP010_BY_INDEX
    ]
)
"""What changes a connection of AMQP 0-10, and which sessions are attached to its channels: a 1 at the index of each."""

AMQP010_KEPT = bytes([AMQP010_STATEFUL[cls.index] or cls.name in _NUMBERING for cls in AMQP010_BY_INDEX])
"""The same, and what changes the numbers of the commands. No pump passes these on."""

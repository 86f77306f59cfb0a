"""Methods that change the state shared by the peers of a connection."""

from __future__ import annotations

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
"""By sender, a 1 at the index of each such method; the others, nearly all of the traffic, bypass the passage."""

"""Which methods change what a connection's peers have agreed."""

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
"""Of each sender, the methods that change what the legs have agreed. The others, which are nearly
all there are, need not be handed over to be relayed."""

"""The 0-9-1 dialect of a session."""

from __future__ import annotations

from amqproxy.proxy.amqp091.packed_leg import Amqp091PackedLeg, pack_leg, unpack_leg
from amqproxy.proxy.amqp091.traffic import Amqp091Traffic
from amqproxy.proxy.session.dialect import Dialect

AMQP091_DIALECT = Dialect(Amqp091Traffic, Amqp091PackedLeg, pack_leg, unpack_leg)

"""The 0-10 dialect of a session."""

from __future__ import annotations

from amqproxy.proxy.amqp010.packed_leg import Amqp010PackedLeg, pack_leg, unpack_leg
from amqproxy.proxy.amqp010.traffic import Amqp010Traffic
from amqproxy.proxy.session.dialect import Dialect

AMQP010_DIALECT = Dialect(Amqp010Traffic, Amqp010PackedLeg, pack_leg, unpack_leg)

"""The protocols that sessions decode, by the names that `recognise` gives their headers."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from amqproxy.amqp010.protocol_header import NAME as AMQP010
from amqproxy.amqp091.protocol_header import LIKE_0_9_1
from amqproxy.amqp091.protocol_header import NAME as AMQP091
from amqproxy.peer import Peer
from amqproxy.proxy.amqp010 import stateful as amqp010_stateful
from amqproxy.proxy.amqp010.traffic import Amqp010Traffic
from amqproxy.proxy.amqp091 import stateful as amqp091_stateful
from amqproxy.proxy.amqp091.traffic import Amqp091Traffic
from amqproxy.proxy.session.traffic import Traffic

DIALECTS: Mapping[str, type[Traffic]] = MappingProxyType(
    {**dict.fromkeys(LIKE_0_9_1, Amqp091Traffic), AMQP010: Amqp010Traffic}
)

KEPT: Mapping[str, Mapping[Peer, bytes]] = MappingProxyType(
    {AMQP091: amqp091_stateful.STATEFUL, AMQP010: dict.fromkeys(Peer, amqp010_stateful.KEPT)}
)
"""A 1 at the index of each method of a peer that sessions handle themselves, so that no pump forwards it."""

"""The protocols that sessions decode, by the names that `recognise` gives their headers."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from amqproxy.amqp010.protocol_header import NAME as AMQP010
from amqproxy.amqp091.protocol_header import LIKE_0_9_1
from amqproxy.proxy.amqp010.traffic import Amqp010Traffic
from amqproxy.proxy.amqp091.traffic import Amqp091Traffic
from amqproxy.proxy.session.traffic import Traffic

DIALECTS: Mapping[str, type[Traffic]] = MappingProxyType(
    {**dict.fromkeys(LIKE_0_9_1, Amqp091Traffic), AMQP010: Amqp010Traffic}
)

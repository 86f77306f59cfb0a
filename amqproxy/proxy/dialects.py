"""The protocols that sessions decode, by the names that `recognise` gives their headers."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from amqproxy.amqp010.protocol_header import NAME as AMQP010
from amqproxy.amqp091.protocol_header import LIKE_0_9_1
from amqproxy.proxy.amqp010.dialect import AMQP010_DIALECT
from amqproxy.proxy.amqp091.dialect import AMQP091_DIALECT
from amqproxy.proxy.session.dialect import Dialect

DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    dict.fromkeys(LIKE_0_9_1, AMQP091_DIALECT) | {AMQP010: AMQP010_DIALECT}
)

"""Protocol and masking of items without frames."""

from __future__ import annotations

from amqproxy.amqp010.protocol_header import NAME as AMQP010
from amqproxy.amqp091.protocol_header import NAME as AMQP091
from amqproxy.capture.amqp010.secrets import masked_rubbish as amqp010_masked_rubbish
from amqproxy.capture.amqp091.secrets import masked_rubbish as amqp091_masked_rubbish
from amqproxy.capture.decoded import Decoded, DecodedProtocolHeader, SkippedBytes


def protocol_of(decoded: Decoded) -> str:
    """Return the protocol to name in a recording of an item's connection: 0-9-1 unless it is known to be 0-10."""
    return AMQP010 if getattr(decoded, "protocol", None) == AMQP010 else AMQP091


def masked_rubbish(decoded: DecodedProtocolHeader | SkippedBytes) -> bytes:
    """Return the bytes of an item, which are not whole frames, with all that could be a secret masked."""
    mask = amqp010_masked_rubbish if decoded.protocol == AMQP010 else amqp091_masked_rubbish
    return mask(decoded.data)

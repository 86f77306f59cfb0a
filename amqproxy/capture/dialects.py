"""What depends on the protocol of an item that holds no frames."""

from __future__ import annotations

from amqproxy.amqp010.protocol_header import NAME as AMQP010
from amqproxy.capture.amqp010.secrets import masked_rubbish as amqp010_masked_rubbish
from amqproxy.capture.amqp091.secrets import masked_rubbish as amqp091_masked_rubbish
from amqproxy.capture.decoded import Decoded, DecodedProtocolHeader, SkippedBytes


def is_amqp010(decoded: Decoded) -> bool:
    """Whether an item is of a connection whose recording says that it is of 0-10."""
    return getattr(decoded, "protocol", None) == AMQP010


def masked_rubbish(decoded: DecodedProtocolHeader | SkippedBytes) -> bytes:
    """Return the bytes of an item, which are not whole frames, with all that could be a secret masked."""
    mask = amqp010_masked_rubbish if decoded.protocol == AMQP010 else amqp091_masked_rubbish
    return mask(decoded.data)

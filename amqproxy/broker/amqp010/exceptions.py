"""Errors of the broker's model, with the codes that AMQP 0-10 has for them."""

from __future__ import annotations

from amqproxy.amqp010 import errors
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp091.errors import ProtocolError as ProtocolError091

_BY_CODE: dict[int, type[ProtocolError]] = {
    311: errors.ResourceLimitExceeded,
    320: errors.ConnectionForced,
    402: errors.InvalidPath,
    403: errors.UnauthorizedAccess,
    404: errors.NotFound,
    405: errors.ResourceLocked,
    406: errors.PreconditionFailed,
    501: errors.FramingError,
    503: errors.NotFound,  # an unknown exchange type
    506: errors.ResourceLimitExceeded,
    530: errors.NotAllowed,
    540: errors.NotImplementedByPeer,
}
"""Exceptions of 0-10 by the reply codes of AMQP 0-9-1."""


def translated(error: ProtocolError091) -> ProtocolError:
    """Return a model's error as one of 0-10; a code without a counterpart becomes an internal error."""
    return _BY_CODE.get(error.code, errors.InternalError)(error.text)

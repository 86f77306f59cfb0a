"""What the model of the broker refuses, with the codes that AMQP 0-10 has for it."""

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
    503: errors.NotFound,  # an exchange type that there is not
    506: errors.ResourceLimitExceeded,
    530: errors.NotAllowed,
    540: errors.NotImplementedByPeer,
}
"""By the reply codes of AMQP 0-9-1."""


def translated(error: ProtocolError091) -> ProtocolError:
    """An error of the model as one of 0-10; what has no code there is an internal error."""
    return _BY_CODE.get(error.code, errors.InternalError)(error.text)

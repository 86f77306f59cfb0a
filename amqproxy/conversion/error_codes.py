"""The codes of AMQP 0-10 for those that rules have, which are of 0-9-1."""

from __future__ import annotations

from amqproxy.amqp010.domains import CloseCode, ErrorCode

_SESSION = {
    311: ErrorCode.RESOURCE_LIMIT_EXCEEDED,
    312: ErrorCode.NOT_FOUND,
    313: ErrorCode.NOT_FOUND,
    402: ErrorCode.NOT_FOUND,
    501: ErrorCode.COMMAND_INVALID,
    502: ErrorCode.COMMAND_INVALID,
    504: ErrorCode.ILLEGAL_STATE,
    505: ErrorCode.ILLEGAL_STATE,
}


def session_code(code: int) -> ErrorCode:
    """The code of an execution.exception; what has none there is an internal error."""
    known = _SESSION.get(code)
    if known is not None:
        return known
    return ErrorCode(code) if code in list(ErrorCode) else ErrorCode.INTERNAL_ERROR


def connection_code(code: int) -> CloseCode:
    """The code of a connection.close, of which there are four."""
    return CloseCode(code) if code in list(CloseCode) else CloseCode.CONNECTION_FORCED

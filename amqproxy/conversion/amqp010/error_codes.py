"""AMQP 0-10 codes for the 0-9-1 reply codes that rules use."""

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
    """Return the code of an execution.exception; codes without a counterpart become an internal error."""
    known = _SESSION.get(code)
    if known is not None:
        return known
    return ErrorCode(code) if code in list(ErrorCode) else ErrorCode.INTERNAL_ERROR


def connection_code(code: int) -> CloseCode:
    """Return the code of a connection.close, of which there are four."""
    return CloseCode(code) if code in list(CloseCode) else CloseCode.CONNECTION_FORCED

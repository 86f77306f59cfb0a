"""Errors as exceptions, with the AMQP 0-10 code and the scope that each ends.

A connection ends by connection.close with a `CloseCode`, a session by execution.exception with an `ErrorCode`, and its
attachment to a channel by session.detached with a `DetachCode`. For errors without a code in the specification, such as
a malformed control, framing-error is the closest.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from amqproxy.amqp010.domains import CloseCode, DetachCode, ErrorCode
from amqproxy.amqp010.protocol_header import NAME

MAX_REPLY_TEXT = 255
"""Maximum length of the text in connection.close, a str8, in bytes."""

MAX_DESCRIPTION = 65_535
"""Maximum length of the text in execution.exception, a str16, in bytes."""


class Scope(StrEnum):
    """Scope of an error: a session's attachment to its channel, the session, or the connection."""

    ATTACHMENT = "attachment"
    SESSION = "session"
    CONNECTION = "connection"


class ProtocolError(Exception):
    """A peer violated the protocol, or requested something illegal; carries the code and the scope to end.

    `code` and `name` are the code and the specification's name for it, `scope` is the scope to end, `channel` the
    channel number, `class_code` and `method_code` the control or command at fault (0 if none is), `field_index` the
    index of its field at fault (`None` if no single one is), `command_id` the command's id, if its receiver counts
    them, `offset` the byte of the fault in the direction's stream, or `None` if it is not about bytes. `received` is
    the received data at fault, if kept.
    """

    protocol: ClassVar[str] = NAME
    code: ClassVar[CloseCode | DetachCode | ErrorCode]
    name: ClassVar[str]
    usual_scope: ClassVar[Scope]

    def __init__(
        self,
        text: str,
        *,
        channel: int = 0,
        class_code: int = 0,
        method_code: int = 0,
        field_index: int | None = None,
        command_id: int | None = None,
        offset: int | None = None,
        scope: Scope | None = None,
        section: str = "",
    ) -> None:
        super().__init__(text)
        self.text = text
        self.channel = channel
        self.class_code = class_code
        self.method_code = method_code
        self.field_index = field_index
        self.command_id = command_id
        self.offset = offset
        self.scope = scope or self.usual_scope
        self.section = section
        self.received: bytes = b""

    @property
    def reply_text(self) -> str:
        """Text for a connection.close or an execution.exception: the name, then the description, cut to the maximum
        length.
        """
        limit = MAX_REPLY_TEXT if self.scope is Scope.CONNECTION else MAX_DESCRIPTION
        data = f"{self.name}: {self.text}".encode("utf-8", "replace")
        return data[:limit].decode("utf-8", "ignore")

    def __str__(self) -> str:
        place = "" if self.offset is None else f" at byte {self.offset}"
        return f"{int(self.code)} {self.name}: {self.text}{place}"


class _ConnectionError(ProtocolError):
    usual_scope = Scope.CONNECTION


class _SessionError(ProtocolError):
    usual_scope = Scope.SESSION


class _AttachmentError(ProtocolError):
    usual_scope = Scope.ATTACHMENT


class ConnectionForced(_ConnectionError):
    code, name = CloseCode.CONNECTION_FORCED, "connection-forced"


class InvalidPath(_ConnectionError):
    code, name = CloseCode.INVALID_PATH, "invalid-path"


class FramingError(_ConnectionError):
    code, name = CloseCode.FRAMING_ERROR, "framing-error"


class UnauthorizedAccess(_SessionError):
    code, name = ErrorCode.UNAUTHORIZED_ACCESS, "unauthorized-access"


class NotFound(_SessionError):
    code, name = ErrorCode.NOT_FOUND, "not-found"


class ResourceLocked(_SessionError):
    code, name = ErrorCode.RESOURCE_LOCKED, "resource-locked"


class PreconditionFailed(_SessionError):
    code, name = ErrorCode.PRECONDITION_FAILED, "precondition-failed"


class ResourceDeleted(_SessionError):
    code, name = ErrorCode.RESOURCE_DELETED, "resource-deleted"


class IllegalState(_SessionError):
    code, name = ErrorCode.ILLEGAL_STATE, "illegal-state"


class CommandInvalid(_SessionError):
    """The segments of a command cannot be decoded."""

    code, name = ErrorCode.COMMAND_INVALID, "command-invalid"


class ResourceLimitExceeded(_SessionError):
    code, name = ErrorCode.RESOURCE_LIMIT_EXCEEDED, "resource-limit-exceeded"


class NotAllowed(_SessionError):
    code, name = ErrorCode.NOT_ALLOWED, "not-allowed"


class IllegalArgument(_SessionError):
    """A value outside its domain."""

    code, name = ErrorCode.ILLEGAL_ARGUMENT, "illegal-argument"


class NotImplementedByPeer(_SessionError):
    code, name = ErrorCode.NOT_IMPLEMENTED, "not-implemented"


class InternalError(_SessionError):
    code, name = ErrorCode.INTERNAL_ERROR, "internal-error"


class InvalidArgument(_SessionError):
    """A value within its domain that is not allowed here."""

    code, name = ErrorCode.INVALID_ARGUMENT, "invalid-argument"


class SessionBusy(_AttachmentError):
    """The session is attached to another channel."""

    code, name = DetachCode.SESSION_BUSY, "session-busy"


class TransportBusy(_AttachmentError):
    """Another session is attached to the channel."""

    code, name = DetachCode.TRANSPORT_BUSY, "transport-busy"


class NotAttached(_AttachmentError):
    """No session is attached to the channel."""

    code, name = DetachCode.NOT_ATTACHED, "not-attached"


class UnknownIds(_AttachmentError):
    """A command was sent on a session before session.command-point gave its id."""

    code, name = DetachCode.UNKNOWN_IDS, "unknown-ids"


BY_CODE: dict[int, type[ProtocolError]] = {
    int(error.code): error
    for family in (_ConnectionError, _SessionError, _AttachmentError)
    for error in family.__subclasses__()
}
"""Exceptions by their codes, which differ between the scopes; the two codes NORMAL have none."""

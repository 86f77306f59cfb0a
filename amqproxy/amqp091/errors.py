"""Reply codes as exceptions (constants: section 1.2; scopes: section 4.3)."""

from __future__ import annotations

from enum import Enum, StrEnum, auto
from typing import ClassVar

from amqproxy.amqp091.protocol_header import NAME

MAX_REPLY_TEXT = 255
"""Maximum length of a reply text in bytes, since it is a short string."""


def cut_reply_text(text: str) -> str:
    """Return the text cut to the maximum length of a reply text, ending in dots after a whole character."""
    data = text.encode("utf-8", "surrogateescape")
    if len(data) <= MAX_REPLY_TEXT:
        return text
    end = MAX_REPLY_TEXT - 3
    while end > MAX_REPLY_TEXT - 7 and data[end] & 0xC0 == 0x80:  # within a character
        end -= 1
    return data[:end].decode("utf-8", "surrogateescape") + "..."


def named_text(code: int, text: str, unnamed: str = "") -> str:
    """Return the text after the name of its reply code, or after `unnamed` if the code has no name."""
    name = BY_CODE[code].name if code in BY_CODE else unnamed
    return f"{name} - {text}" if name and text else name or text


def reply_text(code: int, text: str, unnamed: str = "") -> str:
    """Like `named_text`, cut to the maximum length of a reply text."""
    return cut_reply_text(named_text(code, text, unnamed))


class Scope(StrEnum):
    """Scope of an error: the channel on which it occurred, or the whole connection."""

    CHANNEL = "channel"
    CONNECTION = "connection"


class ErrorKind(Enum):
    """Kind of an error, where the reply code alone does not determine RabbitMQ's text (`rabbitmq_errors`)."""

    OPENED_TWICE = auto()
    """A channel.open for a channel that is open, or whose close has not been answered with channel.close-ok."""
    NO_BODY_FRAME = auto()
    """Another frame arrived in place of a body frame."""
    BODY_TOO_LONG = auto()
    """A body frame has more bytes than its content header announced."""
    NOT_UTF_8 = auto()
    """A short string is not UTF-8."""


class ProtocolError(Exception):
    """A peer violated the protocol, or requested something illegal; carries the reply code and the scope to close.

    `code` and `name` are the reply code and its name, `scope` is the scope to close, `channel` the channel number (0
    for the connection), `class_id` and `method_id` the method at fault (0 if none is), `offset` the byte of the fault
    in the direction's stream, or `None` if it is not about bytes. `kind` distinguishes errors with the same code.
    `received` is the received data at fault, if kept.
    """

    protocol: ClassVar[str] = NAME
    code: ClassVar[int]
    name: ClassVar[str]
    usual_scope: ClassVar[Scope]

    def __init__(
        self,
        text: str,
        *,
        channel: int = 0,
        class_id: int = 0,
        method_id: int = 0,
        offset: int | None = None,
        scope: Scope | None = None,
        kind: ErrorKind | None = None,
    ) -> None:
        super().__init__(text)
        self.text = text
        self.channel = channel
        self.class_id = class_id
        self.method_id = method_id
        self.offset = offset
        self.scope = scope or self.usual_scope
        self.kind = kind
        self.received: bytes = b""

    @property
    def reply_text(self) -> str:
        """Text for a close method: the name, then the description, cut to the maximum length."""
        return reply_text(self.code, self.text)

    def __str__(self) -> str:
        place = "" if self.offset is None else f" at byte {self.offset}"
        return f"{self.code} {self.name}: {self.text}{place}"


class _ChannelError(ProtocolError):
    usual_scope = Scope.CHANNEL


class _ConnectionError(ProtocolError):
    usual_scope = Scope.CONNECTION


class ContentTooLarge(_ChannelError):
    code, name = 311, "CONTENT_TOO_LARGE"


class NoRoute(_ChannelError):
    """RabbitMQ's own code, used in basic.return only."""

    code, name = 312, "NO_ROUTE"


class NoConsumers(_ChannelError):
    code, name = 313, "NO_CONSUMERS"


class ConnectionForced(_ConnectionError):
    code, name = 320, "CONNECTION_FORCED"


class InvalidPath(_ConnectionError):
    code, name = 402, "INVALID_PATH"


class AccessRefused(_ChannelError):
    code, name = 403, "ACCESS_REFUSED"


class NotFound(_ChannelError):
    code, name = 404, "NOT_FOUND"


class ResourceLocked(_ChannelError):
    code, name = 405, "RESOURCE_LOCKED"


class PreconditionFailed(_ChannelError):
    code, name = 406, "PRECONDITION_FAILED"


class FrameError(_ConnectionError):
    code, name = 501, "FRAME_ERROR"


class SyntaxViolation(_ConnectionError):
    """`SYNTAX_ERROR`; SyntaxError is a Python builtin."""

    code, name = 502, "SYNTAX_ERROR"


class CommandInvalid(_ConnectionError):
    code, name = 503, "COMMAND_INVALID"


class ChannelError(_ConnectionError):
    """A channel that is not open, or already open. Despite its name, a connection error."""

    code, name = 504, "CHANNEL_ERROR"


class UnexpectedFrame(_ConnectionError):
    code, name = 505, "UNEXPECTED_FRAME"


class ResourceError(_ConnectionError):
    code, name = 506, "RESOURCE_ERROR"


class NotAllowed(_ConnectionError):
    code, name = 530, "NOT_ALLOWED"


class NotImplementedByServer(_ConnectionError):
    code, name = 540, "NOT_IMPLEMENTED"


class InternalError(_ConnectionError):
    code, name = 541, "INTERNAL_ERROR"


BY_CODE: dict[int, type[ProtocolError]] = {
    error.code: error for family in (_ChannelError, _ConnectionError) for error in family.__subclasses__()
}

"""Enumerations of AMQP 0-10: domains whose values have names (section 5.4.1).

Fields hold the plain number, which equals a member of the enumeration, so that a value without a name is preserved. The
enumeration of a field is in `Method.choices` and `Struct.choices`.
"""

from __future__ import annotations

from enum import IntEnum


class SegmentType(IntEnum):
    """Content of a frame's segment."""

    CONTROL = 0
    COMMAND = 1
    HEADER = 2
    BODY = 3


class Track(IntEnum):
    """Track of a frame: controls and commands alternate on a channel, frame by frame, on separate tracks."""

    CONTROL = 0
    COMMAND = 1


class CloseCode(IntEnum):
    """Reason for the end of a connection."""

    NORMAL = 200
    CONNECTION_FORCED = 320
    INVALID_PATH = 402
    FRAMING_ERROR = 501


class DetachCode(IntEnum):
    """Reason why a session is not attached to its channel."""

    NORMAL = 0
    SESSION_BUSY = 1
    TRANSPORT_BUSY = 2
    NOT_ATTACHED = 3
    UNKNOWN_IDS = 4


class ErrorCode(IntEnum):
    """Reason for the failure of a command, and with it its session."""

    UNAUTHORIZED_ACCESS = 403
    NOT_FOUND = 404
    RESOURCE_LOCKED = 405
    PRECONDITION_FAILED = 406
    RESOURCE_DELETED = 408
    ILLEGAL_STATE = 409
    COMMAND_INVALID = 503
    RESOURCE_LIMIT_EXCEEDED = 506
    NOT_ALLOWED = 530
    ILLEGAL_ARGUMENT = 531
    NOT_IMPLEMENTED = 540
    INTERNAL_ERROR = 541
    INVALID_ARGUMENT = 542


class AcceptMode(IntEnum):
    """Whether a transfer must be accepted."""

    EXPLICIT = 0
    NONE = 1


class AcquireMode(IntEnum):
    """Whether a message is acquired with its transfer, or must be acquired."""

    PRE_ACQUIRED = 0
    NOT_ACQUIRED = 1


class RejectCode(IntEnum):
    """Reason for the rejection of a message."""

    UNSPECIFIED = 0
    UNROUTABLE = 1
    IMMEDIATE = 2


class DeliveryMode(IntEnum):
    """Whether a message survives a restart of the broker."""

    NON_PERSISTENT = 1
    PERSISTENT = 2


class DeliveryPriority(IntEnum):
    """Priority of a message."""

    LOWEST = 0
    LOWER = 1
    LOW = 2
    BELOW_AVERAGE = 3
    MEDIUM = 4
    ABOVE_AVERAGE = 5
    HIGH = 6
    HIGHER = 7
    VERY_HIGH = 8
    HIGHEST = 9


class FlowMode(IntEnum):
    """Whether credit is used up permanently, or returns on completion."""

    CREDIT = 0
    WINDOW = 1


class CreditUnit(IntEnum):
    """Unit of credit."""

    MESSAGE = 0
    BYTE = 1


class XaStatus(IntEnum):
    """Outcome of a transaction branch."""

    XA_OK = 0
    XA_RBROLLBACK = 1
    XA_RBTIMEOUT = 2
    XA_HEURHAZ = 3
    XA_HEURCOM = 4
    XA_HEURRB = 5
    XA_HEURMIX = 6
    XA_RDONLY = 7


class ReturnCode(IntEnum):
    """Reason for the return of a file or stream message; both classes have an equal domain of this name."""

    CONTENT_TOO_LARGE = 311
    NO_ROUTE = 312
    NO_CONSUMERS = 313

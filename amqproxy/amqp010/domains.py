"""The enumerations of AMQP 0-10: domains whose values have names (section 5.4.1).

Fields hold the plain number, which a member of an enumeration equals, so that a value without a name survives. Which
field has which enumeration is in `Method.choices` and `Struct.choices`.
"""

from __future__ import annotations

from enum import IntEnum


class SegmentType(IntEnum):
    """What a frame holds a piece of."""

    CONTROL = 0
    COMMAND = 1
    HEADER = 2
    BODY = 3


class Track(IntEnum):
    """Controls and commands alternate on a channel, frame by frame, on a track each."""

    CONTROL = 0
    COMMAND = 1


class CloseCode(IntEnum):
    """Why a connection ends."""

    NORMAL = 200
    CONNECTION_FORCED = 320
    INVALID_PATH = 402
    FRAMING_ERROR = 501


class DetachCode(IntEnum):
    """Why a session is no longer attached to its channel, or never was."""

    NORMAL = 0
    SESSION_BUSY = 1
    TRANSPORT_BUSY = 2
    NOT_ATTACHED = 3
    UNKNOWN_IDS = 4


class ErrorCode(IntEnum):
    """Why a command failed, and its session with it."""

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
    """Whether a transfer has to be accepted."""

    EXPLICIT = 0
    NONE = 1


class AcquireMode(IntEnum):
    """Whether a message is its receiver's with the transfer, or has to be acquired."""

    PRE_ACQUIRED = 0
    NOT_ACQUIRED = 1


class RejectCode(IntEnum):
    """Why a message was rejected."""

    UNSPECIFIED = 0
    UNROUTABLE = 1
    IMMEDIATE = 2


class DeliveryMode(IntEnum):
    """Whether a message survives a restart of the broker."""

    NON_PERSISTENT = 1
    PERSISTENT = 2


class DeliveryPriority(IntEnum):
    """How urgent a message is."""

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
    """Whether credit is used up for good, or comes back with completion."""

    CREDIT = 0
    WINDOW = 1


class CreditUnit(IntEnum):
    """What credit counts."""

    MESSAGE = 0
    BYTE = 1


class XaStatus(IntEnum):
    """What became of a transaction branch."""

    XA_OK = 0
    XA_RBROLLBACK = 1
    XA_RBTIMEOUT = 2
    XA_HEURHAZ = 3
    XA_HEURCOM = 4
    XA_HEURRB = 5
    XA_HEURMIX = 6
    XA_RDONLY = 7


class ReturnCode(IntEnum):
    """Why a file or a stream's message came back; the two classes have a domain of this name each, and the same."""

    CONTENT_TOO_LARGE = 311
    NO_ROUTE = 312
    NO_CONSUMERS = 313

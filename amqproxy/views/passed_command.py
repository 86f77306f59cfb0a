"""A command as it passed in a capture, with its content, or another event of a connection."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from amqproxy.amqp091.properties import NO_PROPERTIES
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.trace.events import MessageProperties, Method


class PassedKind(StrEnum):
    """Kinds of events on a connection."""

    COMMAND = "command"
    """A method, with all of its content."""
    CUT_COMMAND = "cut command"
    """A method with incomplete content: it did not arrive, or is not in the capture."""
    STRAY_CONTENT = "stray content"
    """A header or a body frame whose method is not in the capture."""
    HEARTBEAT = "heartbeat"
    PROTOCOL_HEADER = "protocol header"
    ERROR = "error"
    """Unreadable bytes."""
    END = "end"
    """The end of both directions of the connection."""

    @property
    def is_without_method(self) -> bool:
        return self not in (PassedKind.COMMAND, PassedKind.CUT_COMMAND)


class PassedCommand(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A command or other event of one side of a connection, complete at `ts_ns`; `sender` is "" for the end of both.

    In a recording of the proxy, `leg` is the one that it passed on, and `note` the effect of rules. `channel` is None
    for events without a channel. `command_id` is that of a protocol that numbers its commands, if it is known. `size`
    is that of the body, `body` as much of its beginning as was requested. `text` is the protocol's name, the error, or
    the reason for which the connection ended, unless it was closed before.
    """

    kind: PassedKind
    ts_ns: int
    stream: int
    connection: str
    sender: str = ""
    channel: int | None = None
    method: Method | None = None
    leg: str = ""
    note: Note = NOTHING
    properties: MessageProperties = NO_PROPERTIES
    command_id: int | None = None
    size: int | None = None
    body: bytes = b""
    text: str = ""
    places: Mapping[str, str] = {}
    """The exchange and the routing key of a message, if they are not in its method."""

"""0-10 frames as `Record`s.

The secrets of a login are masked, as for 0-9-1. Sets of commands become pairs of the first and the last of each range,
structs become objects of the fields present; all properties of a header are in one object.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any
from uuid import UUID

from amqproxy.amqp010.commands import ExecutionResult
from amqproxy.amqp010.domains import SegmentType
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import Frame
from amqproxy.amqp010.methods import BY_INDEX, Command, Method
from amqproxy.amqp010.properties import Header
from amqproxy.amqp010.protocol_header import NAME
from amqproxy.amqp010.sequence import ByteRanges, SequenceSet
from amqproxy.amqp010.structs import Struct
from amqproxy.amqp010.wire import Array, List, Map, UnknownStruct
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.record import MASK, Record, excerpt, json_entries, json_value

TYPES = {each: each.name.lower() for each in SegmentType}

_LETTERS = ((8, "B"), (4, "E"), (2, "b"), (1, "e"))

FLAGS = tuple("".join([letter for bit, letter in _LETTERS if bits & bit]) for bits in range(16))
"""Letters of a frame's flags: B and E in the first and the last segment, b and e if it is the first and the last frame
of its segment."""


_RESULTS = [(each.result, each.name) for each in BY_INDEX if issubclass(each, Command) and each.result is not None]
_COMMANDS_OF = Counter([result for result, _ in _RESULTS])

_ANSWERED: dict[type[Any], str] = {result: name for result, name in _RESULTS if _COMMANDS_OF[result] == 1}
"""Name of the only command with this struct as its result."""


def answered_name(reply: Method) -> str | None:
    """Return the name of the command that an execution.result answers, if its struct is that of one command only."""
    return _ANSWERED.get(type(reply.value)) if isinstance(reply, ExecutionResult) else None


def record_amqp010_frame(
    frame: Frame,
    *,
    ts_ns: int,
    stream: int,
    connection: str,
    sender: str,
    command_id: int | None = None,
    note: Note = NOTHING,
    body: int = 0,
) -> Record:
    """Return the record of a frame; its type is "error" if the payload is malformed.

    If a control, command or header spans several frames, the first has its name, and none its fields. The record
    contains the first `body` bytes of a body frame.
    """
    record = Record(
        ts_ns=ts_ns,
        stream=stream,
        connection=connection,
        sender=sender,
        protocol=NAME,
        channel=frame.channel,
        type=TYPES[SegmentType(frame.kind)],
        size=frame.size,
        flags=FLAGS[frame.flags],
        command_id=command_id,
    )
    if note is not NOTHING:
        record.rules, record.tags = note.rules or None, note.tags or None
        record.verdict, record.leg = note.verdict or None, note.leg or None
        record.comments = note.comments or None
    try:
        if frame.kind in (SegmentType.CONTROL, SegmentType.COMMAND):
            if frame.is_whole_segment:
                method: Method = frame.method
                record.method = method.name
                record.arguments = arguments(method)
            elif frame.index >= 0:
                record.method = frame.name
        elif frame.kind == SegmentType.HEADER and frame.is_whole_segment:
            record.properties = properties(frame.header)
        elif frame.kind == SegmentType.BODY:
            if frame.lost:
                record.lost = frame.lost
            if body:
                record.body = excerpt(frame.known_payload, body, frame.size)
    except ProtocolError as error:
        record.type = "error"
        record.code, record.reason, record.offset = int(error.code), error.reply_text, error.offset
        record.lost = frame.size
    return record


def arguments(method: Method) -> dict[str, Any]:
    """Return a method's fields in JSON form, with secrets masked."""
    found = {name: plain(value) for name, value in method.to_dict().items()}
    if method.secret in found:
        found[method.secret] = MASK
    return found


def properties(header: Header) -> dict[str, Any]:
    """Return all properties in a header, in JSON form."""
    found: dict[str, Any] = {}
    for entry in header.entries:
        if isinstance(entry, Struct):
            found |= {name: plain(value) for name, value in entry.present().items()}
        else:
            found[f"0x{entry.code:04x}"] = plain(entry)
    return found


def plain(value: Any) -> Any:
    """Return the JSON form of a value of a method or header."""
    match value:
        case Map():
            return json_entries((key, plain(each)) for key, _, each in value.entries)
        case List() | Array():
            return [plain(each) for each in value]
        case SequenceSet() | ByteRanges():
            return [list(each) for each in value.ranges]
        case Struct():
            return {name: plain(each) for name, each in value.present().items()}
        case UnknownStruct():
            return json_value(value.encode())
        case UUID() | Decimal():
            return str(value)
        case _:
            return json_value(value)

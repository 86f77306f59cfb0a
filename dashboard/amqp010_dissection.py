"""Dissection of one 0-10 frame into fields with their byte ranges, like `dissection` for 0-9-1.

Bits share the bytes of their struct's packing flags.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from amqproxy.amqp010.commands import MessageTransfer
from amqproxy.amqp010.domains import SegmentType, Track
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import BODY, COMMAND, HEADER, OVERHEAD, Frame
from amqproxy.amqp010.methods import BY_INDEX, PACK, spec_name
from amqproxy.capture.amqp010.secrets import masked
from amqproxy.dashboard.amqp010_values import coded_struct, struct_fields
from amqproxy.dashboard.field import MAX_TEXT, Field
from amqproxy.taps.amqp010.record import FLAGS, TYPES
from amqproxy.taps.record import MASK, excerpt

_FLAGS = ((8, "first segment"), (4, "last segment"), (2, "first frame"), (1, "last frame"))

_OWN_NAMES = frozenset({"exchange", "queue"})
"""Arguments that filter expressions name directly, without `fields.`."""

_PATHS = {"binding_key": "routing_key"}


def amqp010_dissected(frame: Frame) -> tuple[bytes, list[Field]]:
    """Return the bytes of a frame, secrets masked, and its fields."""
    raw = masked(frame.raw)
    bits = tuple(Field(name=name, start=0, end=1, type="bit", value=frame.flags & bit != 0) for bit, name in _FLAGS)
    return raw, [
        Field(name="flags", start=0, end=1, type="uint8", value=FLAGS[frame.flags], children=bits),
        Field(name="segment type", start=1, end=2, type="uint8", value=TYPES[SegmentType(frame.kind)]),
        Field(name="size", start=2, end=4, type="uint16", value=len(raw)),
        Field(name="reserved", start=4, end=5, type="uint8", value=raw[4]),
        Field(name="track", start=5, end=6, type="uint8", value=Track(frame.track).name.lower()),
        Field(
            name="channel",
            start=6,
            end=8,
            type="uint16",
            value=frame.channel,
            filter=f"channel.number == {frame.channel}",
        ),
        Field(name="reserved", start=8, end=12, type="uint32", value=int.from_bytes(raw[8:12])),
        *_payload(frame, raw),
    ]


def _payload(frame: Frame, raw: bytes) -> Iterator[Field]:
    if frame.size == 0:
        return
    kind = TYPES[SegmentType(frame.kind)]
    if frame.kind == BODY or not frame.is_whole_segment:
        name = kind if frame.is_whole_segment or frame.kind == BODY else f"part of a {kind}"
        data = raw[OVERHEAD : len(raw) - frame.lost]
        yield Field(name=name, start=OVERHEAD, end=len(raw), type="bytes", value=excerpt(data, MAX_TEXT))
        return
    try:
        _ = frame.header if frame.kind == HEADER else frame.method
    except ProtocolError as error:
        yield Field(name="malformed", start=OVERHEAD, end=len(raw), type="bytes", value=error.reply_text)
        return
    yield from _header(raw) if frame.kind == HEADER else _method(frame, raw)


def _method(frame: Frame, raw: bytes) -> Iterator[Field]:
    cls = BY_INDEX[frame.index]
    at = OVERHEAD
    what = "command" if frame.kind == COMMAND else "control"
    yield Field(name="class", start=at, end=at + 1, type="uint8", value=cls.name.partition(".")[0])
    yield Field(
        name=what,
        start=at + 1,
        end=at + 2,
        type="uint8",
        value=cls.name,
        filter=f"method == {json.dumps(cls.name)}",
    )
    at += 2
    if frame.kind == COMMAND:
        size = Field(name="size", start=at, end=at + 1, type="uint8", value=raw[at])
        sync = Field(name="sync", start=at + 1, end=at + 2, type="uint8", value=raw[at + 1] == 1)
        yield Field(name="session header", start=at, end=at + 2, type="struct", children=(size, sync))
        at += 2
    names = [spec_name(field) for field in cls.fields]
    is_transfer = cls is MessageTransfer
    paths = [name if name in _OWN_NAMES and not is_transfer else _PATHS.get(name, f"fields.{name}") for name in names]
    for field in struct_fields(raw, at, len(raw), cls, names, paths, PACK):
        if field.name == cls.secret:
            field = Field(name=field.name, start=field.start, end=field.end, type=field.type, value=MASK)
        yield field


def _header(raw: bytes) -> Iterator[Field]:
    """Yield the structs of a header segment, each with the size before it."""
    at = OVERHEAD
    while at < len(raw):
        begin = at + 4
        end = begin + int.from_bytes(raw[at:begin])
        size = Field(name="length", start=at, end=begin, type="uint32", value=end - begin)
        children = (size, *coded_struct(raw, begin, end, has_properties=True))
        yield Field(name=str(children[1].value), start=at, end=end, type="struct32", children=children)
        at = end

"""What must hold for any bytes whatever, from the frames of AMQP 0-10 to what they hold.

- Only `ProtocolError` comes out, with an offset that lies within what was read.
- However the bytes are cut into chunks, they give the same frames and the same error.
- What was taken is the bytes up to the error, in one piece.
- What decodes is encoded to the same bytes again, whatever form its peer chose.
- Where reading begins in the middle, no frame is passed over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from amqproxy.amqp010.assembly import Assembly, AssemblyReader
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import OVERHEAD, Frame
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.properties import Header
from amqproxy.amqp010.sequence import ByteRanges, SequenceSet
from amqproxy.amqp010.structs import Struct
from amqproxy.amqp010.wire import Array, List, Map
from tests.amqp010.frame_finder import find_frame
from tests.fuzz.target import cut

MAX_VALUES = 5000
"""How many values of an input are looked at: an array of 1,024 that have no bytes takes five."""


def check(entry: bytes) -> None:
    """Try one input: a byte of choices, one for how to cut, and what a peer sends."""
    if len(entry) < 2:
        return
    choices, seed, data = entry[0], entry[1], entry[2:]
    is_midstream = bool(choices & 1)
    frames, error, taken = _read(iter((data,)), is_midstream)
    again = _read(cut(data, seed), is_midstream)
    assert [frame.raw for frame in frames] == [frame.raw for frame in again[0]]
    assert (_decoded(error), taken) == (_decoded(again[1]), again[2])
    assert b"".join(frame.raw for frame in frames) == taken
    assert data.startswith(taken)
    place = 0
    for frame in frames:
        assert frame.offset == place
        place += frame.length()
        _check_value(frame)
    if error is not None:
        assert error.offset is not None
        assert len(taken) <= error.offset < len(data) + OVERHEAD
    _check_assemblies(frames)
    _check_boundary(data, seed)
    for kind in (Map, List, Array):
        _check_container(kind, data)


def _decoded(error: ProtocolError | None) -> tuple[Any, ...]:
    if error is None:
        return ()
    return error.code, error.scope, error.text, error.channel, error.class_code, error.method_code, error.offset


def _read(pieces: Iterator[bytes], is_midstream: bool) -> tuple[list[Frame], ProtocolError | None, bytes]:
    reader = FrameReader(is_midstream=is_midstream)
    frames: list[Frame] = []
    taken = b""
    for piece in pieces:
        frames += reader.feed(piece)
        taken += bytes(reader.taken)
        if reader.error is not None:
            assert reader.held == b""
            break
        assert len(reader.held) <= reader.frame_max or not reader.frame_max > 0
    assert reader.offset == len(taken)
    return frames, reader.error, taken


def _check_value(frame: Frame) -> None:
    try:
        value = frame.value
    except ProtocolError as error:
        offset = error.offset
    else:
        offset = frame.offset + OVERHEAD
        if isinstance(value, (Method, Header)):
            assert value.encode() == frame.payload
            _check_fields(value, [0])
            assert type(value) is Header or value.absent is not None
        else:
            assert value == frame.payload
    assert offset is not None
    assert frame.offset + OVERHEAD <= offset <= frame.offset + frame.length()
    assert repr(frame)


def _check_fields(value: Any, seen: list[int]) -> None:
    """Look at all that a value holds, to have it decoded; containers have to give back their bytes."""
    seen[0] += 1
    if seen[0] > MAX_VALUES:
        return
    if isinstance(value, Header):
        for entry in value.entries:
            _check_fields(entry, seen)
    elif isinstance(value, (Method, Struct)):
        for field in value.fields:
            _check_fields(getattr(value, field), seen)
    elif isinstance(value, Map):
        assert Map.from_bytes(value.encoded) == value
        for entry in value.entries:
            _check_fields(entry.value, seen)
    elif isinstance(value, List):
        assert List.from_bytes(value.encoded) == value
        for item in value.items:
            _check_fields(item.value, seen)
    elif isinstance(value, Array):
        assert Array.from_bytes(value.encoded) == value
        for each in value:
            _check_fields(each, seen)
            if seen[0] > MAX_VALUES:
                break
    elif isinstance(value, SequenceSet):
        assert SequenceSet(value.ranges) == value
        assert value.is_canonical in (True, False)
    elif isinstance(value, ByteRanges):
        assert ByteRanges(value.ranges) == value
        assert value.is_canonical in (True, False)


def _check_assemblies(frames: list[Frame]) -> None:
    readers: dict[int, AssemblyReader] = defaultdict(AssemblyReader)
    for frame in frames:
        offset: int | None = 0
        assembly = None
        try:
            assembly = readers[frame.channel].add(frame)
        except ProtocolError as error:
            offset = error.offset
        assert offset is not None
        assert 0 <= offset <= frame.offset + frame.length()
        if assembly is None:
            continue
        made = Assembly(
            assembly.channel, assembly.method, assembly.header, assembly.body if assembly.has_body else None
        )
        payloads = [(each.kind, each.payload) for each in assembly.frames]
        again = [(each.kind, each.payload) for each in _frames_of(made.encode())]
        assert _joined(payloads) == _joined(again)


def _frames_of(data: bytes) -> list[Frame]:
    reader = FrameReader(frame_max=0)
    return reader.feed(data)


def _joined(pieces: list[tuple[int, bytes]]) -> dict[int, bytes]:
    """The bytes of each segment."""
    joined: dict[int, bytes] = defaultdict(bytes)
    for kind, payload in pieces:
        joined[kind] += payload
    return joined


def _check_boundary(data: bytes, seed: int) -> None:
    start = seed % (len(data) + 1)
    place, _ = find_frame(data, start)
    assert start <= place <= max(start, len(data))


def _check_container(kind: Any, data: bytes) -> None:
    try:
        made = kind.from_bytes(data)
    except ProtocolError as error:
        offset = error.offset
    else:
        offset = 0
        assert made.encoded == data
        _check_fields(made, [0])
    assert offset is not None
    assert 0 <= offset <= len(data)

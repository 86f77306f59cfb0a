"""What must hold for any bytes whatever, from the frame scanner to the record.

- Only `ProtocolError` comes out, with an offset that lies within what was read.
- However the bytes are cut into chunks, they give the same frames, state, and error.
- What was taken is the bytes up to the error, in one piece.
- What decodes is encoded to the same bytes again, where those are canonical: unused bits are 0.
- Whatever is a frame has a record, in JSON and as a line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from amqproxy.amqp091.commands import CommandReader
from amqproxy.amqp091.connection import CLIENT, SERVER, Connection, Peer
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import HEADER, METHOD, Frame, encode_frame, encode_method
from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.amqp091.methods import (
    BasicConsume,
    BasicGet,
    ChannelClose,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
    QueueDeclare,
)
from amqproxy.amqp091.protocol_header import HEADER as PROTOCOL_HEADER
from amqproxy.amqp091.protocol_header import recognise
from amqproxy.taps import text
from amqproxy.taps.record import record_frame
from tests.amqp091.tracking import TrackingConnection

FRAME_MAX = 4096
_HANDSHAKE: tuple[tuple[Peer, Method], ...] = (
    (SERVER, ConnectionStart()),
    (CLIENT, ConnectionStartOk()),
    (SERVER, ConnectionTune(2, FRAME_MAX, 10)),
    (CLIENT, ConnectionTuneOk(2, FRAME_MAX, 10)),
    (CLIENT, ConnectionOpen()),
    (SERVER, ConnectionOpenOk()),
)

Told = tuple[Any, ...]


def check(entry: bytes) -> None:
    """Try one input: a byte of choices, one for how to cut, and what a peer sends."""
    if len(entry) < 2:
        return
    choices, seed, data = entry[0], entry[1], entry[2:]
    recognise(data[:8])
    frames = _check_reader(data, seed)
    for frame in frames:
        _check_frame(frame)
    _check_connection(data, seed, choices)


def cut(data: bytes, seed: int) -> Iterator[bytes]:
    """Pieces of many sizes, the same for the same seed; single bytes for 0."""
    at, state = 0, seed
    while at < len(data):
        state = (state * 1103515245 + 12345) % 2**31
        size = 1 + (state >> 16) % (1 + seed)
        yield data[at : at + size]
        at += size


def _decoded(error: ProtocolError | None) -> Told:
    if error is None:
        return ()
    return error.code, error.scope, error.text, error.channel, error.class_id, error.method_id, error.offset


# --- frames


def _check_reader(data: bytes, seed: int) -> list[Frame]:
    frames, error, taken = _read(iter((data,)), seed)
    again = _read(cut(data, seed), seed)
    assert [frame.raw for frame in frames] == [frame.raw for frame in again[0]]
    assert (_decoded(error), taken) == (_decoded(again[1]), again[2])
    assert b"".join(frame.raw for frame in frames) == taken
    assert data.startswith(taken)
    place = 0
    for frame in frames:
        assert frame.offset == place
        place += len(frame.raw)
    if error is not None:
        assert error.offset is not None
        assert len(taken) <= error.offset < len(data) + 8
    return frames


def _read(pieces: Iterator[bytes], seed: int) -> tuple[list[Frame], ProtocolError | None, bytes]:
    reader = FrameReader(frame_max=FRAME_MAX)
    if seed & 1:
        reader.open_content_state(1)
    frames: list[Frame] = []
    taken = b""
    for piece in pieces:
        frames += reader.feed(piece)
        taken += bytes(reader.taken)
        if reader.error is not None:
            assert reader.held == b""
            break
        assert len(reader.held) <= FRAME_MAX + 8
    assert reader.offset == len(taken)
    return frames, reader.error, taken


def _check_frame(frame: Frame) -> None:
    value = _value(frame)
    if isinstance(value, ProtocolError):
        assert value.offset is not None
        assert frame.offset + 7 <= value.offset <= frame.offset + max(len(frame.raw), 19)
    elif frame.kind in (METHOD, HEADER):
        payload = value.encode()
        again = Frame(encode_frame(frame.kind, frame.channel, payload)).value
        assert again.encode() == payload
        assert again == value
        assert len(payload) == frame.size
        if _is_canonical(frame):
            assert payload == frame.payload
    record = record_frame(frame, ts_ns=1, stream=1, connection="a-b", sender="client")
    assert (record.type == "error") is isinstance(value, ProtocolError)
    assert json.loads(record.to_json())["size"] == frame.size
    line = text.line(record)
    assert line.isprintable()


def _value(frame: Frame) -> Any:
    try:
        return frame.value
    except ProtocolError as error:
        return error


def _is_canonical(frame: Frame) -> bool:
    """Are there no bits that mean nothing?"""
    if frame.kind == HEADER:
        return frame.payload[13] & 3 == 0
    return b"b" not in frame.method.layout


# --- connections


def _check_connection(data: bytes, seed: int, choices: int) -> None:
    sender = SERVER if choices & 1 else CLIENT
    opening = b""
    if choices & 6:
        opening = encode_method(1, ChannelOpen()) + encode_method(2, ChannelOpen())
    if choices & 4:
        opening += encode_method(1, ConfirmSelect()) + encode_method(1, BasicConsume(queue="q", consumer_tag="c"))
        opening += encode_method(2, QueueDeclare(queue="q")) + encode_method(2, BasicGet(queue="q"))
    shares_a_read = bool(choices & 8) and sender is CLIENT

    def outcome(split: Callable[[bytes], Iterator[bytes]]) -> Told:
        if choices & 16:
            return _feed(TrackingConnection(initial_frame_max=FRAME_MAX), sender, split(data))
        connection = _open()
        if shares_a_read:
            return _feed(connection, sender, split(opening + data))
        connection.feed(CLIENT, opening)
        if opening and choices & 32:
            connection.send(SERVER, 1, ChannelOpenOk())
        if opening and choices & 64:
            connection.send(SERVER, 1, ChannelClose())
        return _feed(connection, sender, split(data))

    assert outcome(lambda fed: iter((fed,))) == outcome(lambda fed: cut(fed, seed))


def _open() -> Connection:
    connection = TrackingConnection(initial_frame_max=FRAME_MAX)
    connection.receive_header(CLIENT, PROTOCOL_HEADER)
    for peer, method in _HANDSHAKE:
        connection.send(peer, 0, method)
    return connection


def _feed(connection: Connection, sender: Peer, pieces: Iterator[bytes]) -> Told:
    """What comes of it: the error, the state, and the commands that were whole before it."""
    error: ProtocolError | None = None
    commands: list[bytes] = []
    readers: dict[int, CommandReader] = {}
    reader = connection.readers[sender]
    for piece in pieces:
        for frame in reader.feed(piece):
            try:
                counts = connection.receive(sender, frame)
            except ProtocolError as found:
                error = found
                break
            if counts and frame.channel:
                commands += _gather(readers.setdefault(frame.channel, CommandReader(max_body=10_000)), frame)
        error = error or reader.error
        if error is not None:
            break
    channels = {
        number: (str(each.state), str(each.mode), len(each.unacked)) for number, each in connection.channels.items()
    }
    for peer in Peer:
        for number in (0, 1, 2):
            connection.may_send(peer, number)
    return _decoded(error), str(connection.state), channels, commands


def _gather(reader: CommandReader, frame: Frame) -> list[bytes]:
    try:
        command = reader.add(frame)
    except ProtocolError:
        return []
    return [] if command is None else [command.encode(FRAME_MAX)]

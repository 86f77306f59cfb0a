"""Texts of RabbitMQ's close methods for malformed or unexpected frames.

The codec's own texts have the offset and the cause, for logs and taps; a client receives RabbitMQ's text.
"""

from __future__ import annotations

import struct

from amqproxy.amqp091.connection import MIN_CONTENT_HEADER
from amqproxy.amqp091.errors import ChannelError, CommandInvalid, ErrorKind, FrameError, ProtocolError, UnexpectedFrame
from amqproxy.amqp091.frame import FRAME_END, HEADER, HEARTBEAT, METHOD, OVERHEAD, Frame
from amqproxy.amqp091.transitions import HAS_CHANNELS, ConnectionState

HEAD = struct.Struct(">BHI")


def reworded(error: ProtocolError, frame: Frame, state: ConnectionState) -> ProtocolError:
    """Set RabbitMQ's text for the frame in an error of `Connection`, in place, and return it."""
    if isinstance(error, ChannelError):
        if frame.channel == 0:
            name = "running" if state is ConnectionState.OPEN else "opening"
            error.text = f"unexpected method in connection state {name}"
        elif error.kind is not ErrorKind.OPENED_TWICE:
            error.text = "expected 'channel.open'"
    elif isinstance(error, CommandInvalid) and frame.kind == METHOD:
        error.text = "unimplemented method"
    elif isinstance(error, UnexpectedFrame):
        if frame.channel == 0 or state not in HAS_CHANNELS:
            error.text = f"type {frame.kind}, all octets = {shown(frame.payload)}"
            error.class_id = error.method_id = 0
        else:
            error.text = _out_of_order(error, frame.kind, frame.payload)
    elif isinstance(error, FrameError) and frame.kind == HEADER and len(frame.payload) < MIN_CONTENT_HEADER:
        error.text = f"type {frame.kind}, all octets = {shown(frame.payload)}: unknown_frame"
        error.class_id = error.method_id = 0
    elif isinstance(error, FrameError) and frame.kind == METHOD:
        if error.kind is ErrorKind.NOT_UTF_8:
            error.text = "Malformed UTF-8 in shortstr"
            if frame.channel:  # RabbitMQ decodes methods of channel 0 elsewhere, where it knows which one it is
                error.class_id = error.method_id = 0
        else:
            error.text = f"cannot decode {numbers(frame.payload[4:])}"
    return error


def reworded_reading(error: ProtocolError, data: bytes, frame_max: int) -> ProtocolError:
    """Set RabbitMQ's text for the frame at the start of `data` in an error of `FrameReader`, in place, and return
    it.
    """
    kind, _, size = HEAD.unpack_from(data)
    payload = data[HEAD.size : HEAD.size + size]
    everything = f"type {kind}, all octets = {shown(payload)}"
    if frame_max and size > frame_max:
        error.text = f"type {kind}, all octets = <<>>: {{frame_too_large,{size},{frame_max - OVERHEAD}}}"
    elif isinstance(error, UnexpectedFrame):
        error.text = everything if kind == HEARTBEAT else _out_of_order(error, kind, payload)
    elif isinstance(error, CommandInvalid) or error.kind is ErrorKind.BODY_TOO_LONG:
        pass  # RabbitMQ sends no text
    elif len(data) > HEAD.size + size and data[HEAD.size + size] != FRAME_END:
        error.text = f"{everything}: {{invalid_frame_end_marker,{data[HEAD.size + size]}}}"
    else:
        error.text = f"{everything}: unknown_frame"
        error.class_id = error.method_id = 0
    return error


def _out_of_order(error: ProtocolError, kind: int, payload: bytes) -> str:
    if not error.class_id:
        return "expected method frame, got non method frame instead"
    if error.kind is ErrorKind.NO_BODY_FRAME:
        return "expected content body, got non content body frame instead"
    expected = f"expected content header for class {error.class_id}"
    class_id = int.from_bytes(payload[:2])
    if kind == HEADER and class_id != error.class_id:
        return f"{expected}, got one for class {class_id} instead"
    return f"{expected}, got non content header frame instead"


def shown(data: bytes) -> str:
    """Return bytes as Erlang shows them: as text if all are printable, else as numbers."""
    if data and all(32 <= byte < 127 or byte in b"\b\t\n\v\f\r\x1b" for byte in data):
        return f'<<"{data.decode().translate(_ESCAPES)}">>'
    return numbers(data)


def numbers(data: bytes) -> str:
    """Return bytes as Erlang writes a binary."""
    return f"<<{','.join(map(str, data))}>>"


_ESCAPES = str.maketrans(
    {
        '"': r"\"",
        "\\": r"\\",
        "\b": r"\b",
        "\t": r"\t",
        "\n": r"\n",
        "\v": r"\v",
        "\f": r"\f",
        "\r": r"\r",
        "\x1b": r"\e",
    }
)

"""What RabbitMQ says of frames that may not come: the texts of its closes, where the codec's own say more.

The codec's texts name the octet and the cause, which a tap wants; a client is answered as it would be by RabbitMQ.
"""

from __future__ import annotations

from amqproxy.amqp091.errors import ChannelError, CommandInvalid, FrameError, ProtocolError, UnexpectedFrame
from amqproxy.amqp091.frames import BODY, HEADER, METHOD, Frame


def reworded(error: ProtocolError, frame: Frame) -> ProtocolError:
    """The error as RabbitMQ words it, when the codec raised it for `frame`; changed in place."""
    if isinstance(error, ChannelError):
        if frame.channel == 0:
            error.text = "unexpected method in connection state running"
        elif "second" not in error.text:
            error.text = "expected 'channel.open'"
    elif isinstance(error, CommandInvalid) and frame.kind == METHOD:
        error.text = "unimplemented method"
    elif isinstance(error, UnexpectedFrame):
        error.text = _unexpected(error, frame)
    elif isinstance(error, FrameError) and frame.kind == METHOD:
        if "UTF-8" in error.text:
            error.text = "Malformed UTF-8 in shortstr"
            error.class_id = error.method_id = 0
        else:
            error.text = f"cannot decode {binary(frame.payload[4:])}"
    return error


def _unexpected(error: ProtocolError, frame: Frame) -> str:
    if frame.channel == 0:
        return f"type {frame.kind}, all octets = {binary(frame.payload)}"
    if not error.class_id:
        return "expected method frame, got non method frame instead"
    if "expected a content body" in error.text:
        return "expected content body, got non content body frame instead"
    expected = f"expected content header for class {error.class_id}"
    if frame.kind == HEADER and "class" in error.text:
        class_id = int.from_bytes(frame.payload[:2])
        if class_id != error.class_id:
            return f"{expected}, got one for class {class_id} instead"
    assert frame.kind in (METHOD, HEADER, BODY)
    return f"{expected}, got non content header frame instead"


def binary(octets: bytes) -> str:
    """Octets as Erlang prints them: as text where all of them can be, else as numbers."""
    if octets and all(32 <= octet < 127 or octet in b"\t\n\r" for octet in octets):
        text = octets.decode().replace("\\", "\\\\").replace('"', '\\"')
        return f'<<"{text}">>'
    return f"<<{','.join(map(str, octets))}>>"

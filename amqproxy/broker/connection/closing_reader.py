"""Frames that a client sends behind a frame that the reader refused, for which it is being sent connection.close."""

from __future__ import annotations

import struct

from amqproxy.amqp091.frame import FRAME_END, METHOD, OVERHEAD, Frame
from amqproxy.amqp091.methods import ConnectionClose, ConnectionCloseOk

_HEAD = struct.Struct(">BHI")
_CLOSING = {struct.pack(">HH", cls.class_id, cls.method_id) for cls in (ConnectionClose, ConnectionCloseOk)}


class ClosingReader:
    """Finds connection.close and connection.close-ok among frames that are otherwise discarded.

    As with RabbitMQ, reading goes on behind a refused frame whose end is where its size says. It `is_lost` where
    it is not, or where a frame is larger than `payload_max` bytes: where the next frame begins is unknown then.
    """

    __slots__ = ("_data", "_payload_max", "is_lost")

    def __init__(self, payload_max: int) -> None:
        self._data = b""
        self._payload_max = payload_max
        self.is_lost = False

    def feed(self, data: bytes) -> list[Frame]:
        """Take the next bytes, from the first of the refused frame on; return the closing methods in them."""
        if self.is_lost:
            return []
        data = self._data + data
        frames = []
        start = 0
        while len(data) - start >= _HEAD.size:
            kind, channel, size = _HEAD.unpack_from(data, start)
            end = start + OVERHEAD + size
            if size > self._payload_max or (len(data) >= end and data[end - 1] != FRAME_END):
                self.is_lost = True
                break
            if len(data) < end:
                break
            if kind == METHOD and channel == 0 and data[start + _HEAD.size : start + _HEAD.size + 4] in _CLOSING:
                frames.append(Frame(data[start:end]))
            start = end
        self._data = b"" if self.is_lost else data[start:]
        return frames

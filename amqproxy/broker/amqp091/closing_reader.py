"""Reader for the frames that follow a refused frame, while connection.close for that one is under way."""

from __future__ import annotations

import struct

from amqproxy.amqp091.frame import FRAME_END, METHOD, OVERHEAD, Frame
from amqproxy.amqp091.methods import ConnectionClose, ConnectionCloseOk

_HEAD = struct.Struct(">BHI")
_ID_SIZE = 4
_CLOSING = {struct.pack(">HH", cls.class_id, cls.method_id) for cls in (ConnectionClose, ConnectionCloseOk)}


class ClosingReader:
    """Filter that discards all frames except connection.close and connection.close-ok.

    Like RabbitMQ, it continues after a refused frame whose end byte is where its size says. Otherwise, or if a frame
    is larger than `payload_max` bytes, it `is_lost`: the start of the next frame is unknown then.
    """

    __slots__ = ("_kept", "_payload_max", "_to_come", "is_lost")

    def __init__(self, payload_max: int) -> None:
        self._payload_max = payload_max
        self._kept = bytearray()
        """The first bytes of a frame until its method is known; all bytes of a closing method."""
        self._to_come = 0
        """Bytes of a discarded frame still to be received; the last of them is its end byte."""
        self.is_lost = False

    def feed(self, data: bytes) -> list[Frame]:
        """Take the next bytes, starting with the refused frame, and return the closing methods in them."""
        frames: list[Frame] = []
        place = 0
        while place < len(data) and not self.is_lost:
            taken = min(self._to_come or self._missing(), len(data) - place)
            if self._to_come:
                self._to_come -= taken
                self.is_lost = not self._to_come and data[place + taken - 1] != FRAME_END
            else:
                self._kept += data[place : place + taken]
                if not self._missing():
                    frames += self._whole()
            place += taken
        return frames

    def _whole(self) -> list[Frame]:
        """Return the kept frame if it is a closing method; an empty list if it is discarded or lost."""
        kept = bytes(self._kept)
        self._kept.clear()
        return [] if self._to_come or self.is_lost else [Frame(kept)]

    def _missing(self) -> int:
        """Return the number of bytes missing to identify the frame; 0 once it is discarded, lost, or complete."""
        kept = self._kept
        if len(kept) < _HEAD.size:
            return _HEAD.size - len(kept)
        kind, channel, size = _HEAD.unpack_from(kept)
        if size > self._payload_max:
            self.is_lost = True
            return 0
        whole: int = size + OVERHEAD
        if kind == METHOD and channel == 0 and size >= _ID_SIZE:
            if len(kept) < _HEAD.size + _ID_SIZE:
                return _HEAD.size + _ID_SIZE - len(kept)
            if bytes(kept[_HEAD.size : _HEAD.size + _ID_SIZE]) in _CLOSING:
                self.is_lost = len(kept) == whole and kept[-1] != FRAME_END
                return whole - len(kept)
        self._to_come = whole - len(kept)
        return 0

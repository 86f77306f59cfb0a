"""Frames that a client sends behind a frame that the reader refused, for which it is being sent connection.close."""

from __future__ import annotations

import struct

from amqproxy.amqp091.frame import FRAME_END, METHOD, OVERHEAD, Frame
from amqproxy.amqp091.methods import ConnectionClose, ConnectionCloseOk

_HEAD = struct.Struct(">BHI")
_ID_SIZE = 4
_CLOSING = {struct.pack(">HH", cls.class_id, cls.method_id) for cls in (ConnectionClose, ConnectionCloseOk)}


class ClosingReader:
    """Finds connection.close and connection.close-ok among frames that are otherwise discarded.

    As with RabbitMQ, reading goes on behind a refused frame whose end is where its size says. It `is_lost` where
    it is not, or where a frame is larger than `payload_max` bytes: where the next frame begins is unknown then.
    """

    __slots__ = ("_kept", "_payload_max", "_to_come", "is_lost")

    def __init__(self, payload_max: int) -> None:
        self._payload_max = payload_max
        self._kept = bytearray()
        """The beginning of a frame until its method is known; a closing method as a whole."""
        self._to_come = 0
        """Bytes of a discarded frame that have not come yet; the last of them is its end."""
        self.is_lost = False

    def feed(self, data: bytes) -> list[Frame]:
        """Take the next bytes, from the first of the refused frame on; return the closing methods in them."""
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
        """Return the kept frame, if it is a closing method; nothing if it is discarded or lost."""
        kept = bytes(self._kept)
        self._kept.clear()
        return [] if self._to_come or self.is_lost else [Frame(kept)]

    def _missing(self) -> int:
        """Return how many more bytes to keep before the frame can be told; 0 once it is discarded, lost, or whole."""
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

"""The bytes of one client that wait to be sent on a shared connection."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple


class Piece(NamedTuple):
    """Bytes on one channel that are sent together: whole messages, or one method.

    `is_method` is whether it is one method, which the state of the shared connection may depend on.
    """

    channel: int
    data: bytes
    is_method: bool = False


class Lane:
    """The pieces of one client in their order; `size` is their number of bytes.

    `allowance` is how many bytes may be sent before it is the turn of others.
    """

    __slots__ = ("allowance", "pieces", "size")

    def __init__(self) -> None:
        self.pieces: deque[Piece] = deque()
        self.size = 0
        self.allowance = 0

    def put(self, piece: Piece) -> None:
        self.pieces.append(piece)
        self.size += len(piece.data)

    def take(self) -> Piece:
        piece = self.pieces.popleft()
        self.size -= len(piece.data)
        return piece

    def drop(self, channel: int) -> None:
        """Drop what waits on a channel."""
        self.pieces = deque(piece for piece in self.pieces if piece.channel != channel)
        self.size = sum(len(piece.data) for piece in self.pieces)

"""Reassembly of IP fragments: bounded, with a count of incomplete packets."""

from __future__ import annotations

MAX_PACKETS = 256
"""Packets reassembled at a time; beyond it the oldest is given up."""
MAX_PACKET_BYTES = 65_535
"""Maximum size of an IP packet; fragments beyond it are invalid."""
MAX_PIECES = 8192
"""Fragments of one packet: 65,535 bytes in the smallest possible pieces."""


class _Pieces:
    """The available fragments of one packet."""

    __slots__ = ("by_offset", "held", "size")

    def __init__(self) -> None:
        self.by_offset: dict[int, bytes] = {}
        self.held = 0
        self.size = -1
        """Size of the whole packet, known once its last fragment arrives."""


class Fragments:
    """Packets with some of their fragments.

    `lost` counts packets given up; `pending` those still incomplete.
    """

    def __init__(self) -> None:
        self._packets: dict[bytes, _Pieces] = {}
        self.lost = 0

    @property
    def pending(self) -> int:
        return len(self._packets)

    def add(self, key: bytes, offset: int, payload: bytes, is_last: bool) -> bytes | None:
        """Add a fragment, and return the payload of the packet `key` once it is complete.

        If bytes arrive twice, the first copy is used.
        """
        pieces = self._packets.get(key)
        if pieces is None:
            if len(self._packets) >= MAX_PACKETS:
                del self._packets[next(iter(self._packets))]
                self.lost += 1
            pieces = self._packets[key] = _Pieces()
        stop = offset + len(payload)
        if stop > MAX_PACKET_BYTES or len(pieces.by_offset) >= MAX_PIECES:
            del self._packets[key]
            self.lost += 1
            return None
        if is_last and pieces.size < 0:
            pieces.size = stop
        if len(payload) > len(pieces.by_offset.get(offset, b"")):
            pieces.held += len(payload) - len(pieces.by_offset.get(offset, b""))
            pieces.by_offset[offset] = payload
        if pieces.size < 0 or pieces.held < pieces.size:
            return None
        whole = _joined(pieces)
        if whole is not None:
            del self._packets[key]
        return whole

    def drop(self, key: bytes) -> None:
        """Give up a packet of which a fragment was not captured completely."""
        self._packets.pop(key, None)
        self.lost += 1


def _joined(pieces: _Pieces) -> bytes | None:
    """Return the bytes from 0 to `size`, or None while there is a hole."""
    whole = bytearray()
    for offset in sorted(pieces.by_offset):
        if offset > len(whole):
            return None
        whole += pieces.by_offset[offset][len(whole) - offset :]
    return bytes(whole[: pieces.size]) if len(whole) >= pieces.size else None

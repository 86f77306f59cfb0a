"""Snapshots of connections in the options of packets: the state of a connection just before the packet.

The carrier is the custom binary option of pcapng that may be copied (code 2989): unlike a Custom Block, which Wireshark
4.0 lists as a packet, it changes nothing of what Wireshark shows. The packet gives a snapshot its connection, its
time and its place. Each option begins with the enterprise number that RFC 5612 reserves for documentation, `MAGIC`,
and the number of bytes in the options that follow, big-endian.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct

import msgspec

from amqproxy.taps.trace.snapshot import ConnectionSnapshot

CUSTOM_BINARY = 2989
"""Code of an option with binary data of an enterprise, which programs may copy to another file."""

ENTERPRISE = 32_473
"""Private enterprise number for examples in documentation (RFC 5612): `MAGIC` tells snapshots from other data."""

MAGIC = b"amqproxy-state-1"

MAX_SNAPSHOT_BYTES = 1024 * 1024
"""Size of a recorded snapshot; larger ones are left out, and what they hold remains unknown."""

_HEAD_BYTES = 4 + len(MAGIC) + 4
_PIECE_BYTES = 65_000
"""Bytes of a snapshot in one option, whose length is limited to 65,535."""


class SnapshotComment(str):
    """Comment of a packet with a snapshot in its options, which it stands for among the packet's comments."""

    snapshot: ConnectionSnapshot


def snapshot_options(data: bytes) -> bytes:
    """Return the options with the bytes of a snapshot, for a little-endian section."""
    options = []
    for start in range(0, len(data), _PIECE_BYTES):
        piece = data[start : start + _PIECE_BYTES]
        left = len(data) - start - len(piece)
        head = Struct("<2HI").pack(CUSTOM_BINARY, _HEAD_BYTES + len(piece), ENTERPRISE)
        options.append(head + MAGIC + left.to_bytes(4) + piece + bytes(-len(piece) & 3))
    return b"".join(options)


def read_snapshot(options: Sequence[bytes], order: str) -> SnapshotComment | None:
    """Return the snapshot in the custom binary options of a packet; `None` if they are of other enterprises.

    `order` is the byte order of the section, as `struct` has it. Raises `ValueError` for anything else.
    """
    word = Struct(order + "I").unpack_from
    pieces: list[bytes] = []
    left = -1
    for option in options:
        if len(option) < 4 or word(option)[0] != ENTERPRISE:
            continue
        if len(option) < _HEAD_BYTES or option[4 : 4 + len(MAGIC)] != MAGIC:
            raise ValueError(f"an option of enterprise {ENTERPRISE} is not a snapshot of a connection")
        piece = option[_HEAD_BYTES:]
        follows = int.from_bytes(option[_HEAD_BYTES - 4 : _HEAD_BYTES])
        if follows > MAX_SNAPSHOT_BYTES or (left >= 0 and follows + len(piece) != left):
            raise ValueError("the pieces of a connection's snapshot do not fit together")
        pieces.append(piece)
        left = follows
    if not pieces:
        return None
    if left:
        raise ValueError(f"{left} bytes of a connection's snapshot are missing")
    try:
        snapshot = ConnectionSnapshot.from_bytes(b"".join(pieces))
        snapshot.check()
    except (ValueError, msgspec.DecodeError, RecursionError, OverflowError) as wrong:
        raise ValueError(f"the snapshot of a connection is not valid: {wrong}") from None
    comment = SnapshotComment("state of the connection")
    comment.snapshot = snapshot
    return comment


def snapshot_of(comments: Iterable[str]) -> ConnectionSnapshot | None:
    """Return the state of the connection before a packet with these comments; `None` if they do not hold it."""
    for comment in comments:
        if isinstance(comment, SnapshotComment):
            return comment.snapshot
    return None

"""Bytes of one direction that cannot be read as frames."""

from __future__ import annotations

import msgspec

MAX_KEPT_BYTES = 64 * 1024
"""Unreadable bytes that are kept with their report, so that they can be exported again."""

MISSING = "bytes are missing from the capture"
JOINED = "the capture begins within a frame"


class UnreadableBytes(msgspec.Struct):
    """A number `lost` of unreadable bytes, from `offset`, detected at `ts_ns`.

    `code` is the reply code that a peer would answer with, or None if the sender is not at fault. `data` holds the
    bytes, if all of them are in the capture, and they are no more than `MAX_KEPT_BYTES`.
    """

    ts_ns: int
    reason: str
    offset: int
    lost: int = 0
    code: int | None = None
    channel: int | None = None
    data: bytes = b""

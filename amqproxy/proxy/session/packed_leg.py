"""A leg of an open connection as a value of a few hundred bytes, from which another one like it is made."""

from __future__ import annotations

import msgspec


class PackedLeg(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """What the peers of a leg have agreed on, in either protocol; a dialect adds the channels that are open.

    `offset`, `frames` and `received` are what had come of its peer by then, `progress` is its transport's.
    """

    start_ok: bytes
    virtual_host: str
    channel_max: int
    frame_max: int
    heartbeat: int
    largest_frame: int
    channel_count: int
    offset: int
    frames: int
    received: int
    progress: int

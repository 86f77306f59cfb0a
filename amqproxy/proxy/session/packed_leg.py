"""A leg of an open connection as a value of a few hundred bytes, from which an equivalent leg is rebuilt."""

from __future__ import annotations

import msgspec


class PackedLeg(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """The negotiated parameters of a leg, in either protocol; a dialect adds the open channels.

    `offset`, `frames` and `received` count what its peer had sent by then; `progress` is its transport's.
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

"""Commands that the evidence of a finding is about: evidence names frames, which may be the last part of a content."""

from __future__ import annotations

from typing import Any

import msgspec

from amqproxy.capture.decoded import DecodedFrames
from dashboard.message_ring import MessageRow
from dashboard.ring import Ring
from dashboard.row_writer import RowWriter

MOST_ENTRIES = 500
"""Packets before a frame in which the method of its content is searched."""


def shown_finding(row: MessageRow, ring: Ring) -> dict[str, Any]:
    """Return a finding with the row of the command in `command` of each frame of its evidence, while it is kept."""
    found: dict[str, Any] = msgspec.json.decode(row.to_json())
    for each in found.get("evidence", ()):
        command = None if each.get("seq") is None else command_row(ring, each["seq"])
        if command is not None:
            each["command"] = msgspec.Raw(command)
    return found


def command_row(ring: Ring, seq: int) -> bytes | None:
    """Return the row of the method that a frame is, or that its content belongs to; `None` if it is not kept."""
    entry = ring.entry_of(seq)
    if entry is None or not isinstance(entry.decoded, DecodedFrames):
        return None
    stream, sender = entry.decoded.stream, entry.decoded.sender
    channel: int | None = None
    last = ring.number_of(entry.seq)
    for number in range(last, max(ring.first, last - MOST_ENTRIES) - 1, -1):
        entry = ring.entries[number]
        decoded = entry.fresh()
        if not isinstance(decoded, DecodedFrames) or (decoded.stream, decoded.sender) != (stream, sender):
            continue
        for place in reversed(range(min(len(decoded.frames), seq + 1 - entry.seq))):
            frame = decoded.frames[place]
            channel = frame.channel if channel is None else channel
            if frame.channel == channel and frame.index >= 0:
                [line] = RowWriter().rows(decoded.at([place]), (entry.seq + place,))
                return line
    return None

"""Commands that the evidence of a finding is about: evidence names frames, which may be the last part of a content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from amqproxy.amqp010.frame import CONTROL
from amqproxy.amqp010.frame import Frame as Amqp010Frame
from amqproxy.amqp091.frame import Frame
from amqproxy.capture.decoded import DecodedFrames
from amqproxy.dashboard.ring import Ring
from amqproxy.dashboard.ring_entry import RingEntry
from amqproxy.dashboard.row_writer import RowWriter

MOST_ENTRIES = 500
"""Packets before a frame in which the method of its content is searched."""


def packets_of(finding: dict[str, Any], ring: Ring) -> dict[int, list[RingEntry]]:
    """Return the packets up to each frame of a finding's evidence that is kept, by the frame's row."""
    found: dict[int, list[RingEntry]] = {}
    for each in finding.get("evidence", ()):
        seq = each.get("seq")
        entry = None if seq is None else ring.entry_of(seq)
        if entry is not None:
            last = ring.number_of(entry.seq)
            found[seq] = ring.snapshot(last - MOST_ENTRIES, last + 1)
    return found


def shown_finding(finding: dict[str, Any], packets: Mapping[int, Sequence[RingEntry]]) -> dict[str, Any]:
    """Return a finding with the row of the command in `command` of each frame of its evidence, while it is kept.

    `packets` are those of `packets_of`. To search them may take a second: call this in a thread.
    """
    for each in finding.get("evidence", ()):
        seq = each.get("seq")
        command = command_row(packets[seq], seq) if seq in packets else None
        if command is not None:
            each["command"] = msgspec.Raw(command)
    return finding


def command_row(packets: Sequence[RingEntry], seq: int) -> bytes | None:
    """Return the row of the method that a frame in the last packet is, or that its content belongs to.

    `None` if it is not among the packets.
    """
    last = packets[-1].decoded
    if not isinstance(last, DecodedFrames):
        return None
    channel: int | None = None
    for entry in reversed(packets):
        decoded = entry.fresh()
        if not isinstance(decoded, DecodedFrames) or (decoded.stream, decoded.sender) != (last.stream, last.sender):
            continue
        for place in reversed(range(min(len(decoded.frames), seq + 1 - entry.seq))):
            frame = decoded.frames[place]
            channel = frame.channel if channel is None else channel
            is_method = frame.index >= 0 and (entry.seq + place == seq or not _is_control(frame))
            if frame.channel == channel and is_method:
                [line] = RowWriter().rows(decoded.at([place]), (entry.seq + place,))
                return line
    return None


def _is_control(frame: Frame | Amqp010Frame) -> bool:
    """Whether a frame is a control of 0-10, which may come between the frames of a command."""
    return isinstance(frame, Amqp010Frame) and frame.kind == CONTROL

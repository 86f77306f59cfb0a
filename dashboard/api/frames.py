"""Frames: rows of a list, and one frame with its fields and bytes."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

from fastapi import APIRouter, Response

from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decoded import DecodedProtocolHeader, SkippedBytes
from amqproxy.capture.dialects import masked_rubbish
from amqproxy.dashboard.amqp010_dissection import amqp010_dissected
from amqproxy.dashboard.api.dependencies import SeqOf, SourceOf
from amqproxy.dashboard.api.queries import ListQueryOf, frame_selection
from amqproxy.dashboard.api.responses import json_response, page_response
from amqproxy.dashboard.dissection import dissected
from amqproxy.dashboard.field import Field
from amqproxy.dashboard.frame_query import entries_for, find
from amqproxy.dashboard.problem import Problem
from amqproxy.dashboard.ring_entry import RingEntry
from amqproxy.dashboard.row_writer import RowWriter
from amqproxy.dashboard.rule_view import frame_rule_view
from amqproxy.taps.record import encoded

router = APIRouter(tags=["frames"])


@router.get("/sources/{source}/frames")
async def list_frames(source: SourceOf, query: ListQueryOf) -> Response:
    """Rows, the newest last: the first ones behind `after`, else the last ones before `before`, or of all."""
    ring = source.ring
    selection = frame_selection(source, query)
    entries, first, end = (
        entries_for(ring, query),
        ring.first_seq,
        ring.next_seq,
    )  # frames that arrive meanwhile are not searched
    return page_response(await asyncio.to_thread(find, entries, selection, query), first, end)


@router.get("/sources/{source}/frames/{seq}")
async def show_frame(source: SourceOf, seq: SeqOf) -> Response:
    """One frame: its record, its bytes, and its fields with the bytes that they are in.

    `view` is the command of 0-10 that begins with it as rules see it.
    """
    entry = source.ring.entry_of(seq)
    if entry is None:
        raise Problem(404, f"there is no frame {seq}: {source.ring.first_seq} to {source.ring.next_seq - 1} are kept")
    return json_response(await asyncio.to_thread(_dissected, entry, seq))


def _dissected(entry: RingEntry, seq: int) -> bytes:
    decoded = entry.fresh()
    raw, fields = b"", list[Field]()
    view: dict[str, Any] | None = None
    if isinstance(decoded, Amqp091DecodedFrames):
        raw, fields = dissected(decoded.frames[seq - entry.seq])
        decoded = decoded.at([seq - entry.seq])
    elif isinstance(decoded, Amqp010DecodedFrames):
        raw, fields = amqp010_dissected(decoded.frames[seq - entry.seq])
        view = frame_rule_view(decoded.sender, decoded.frames, seq - entry.seq)
        decoded = decoded.at([seq - entry.seq])
    elif isinstance(decoded, DecodedProtocolHeader | SkippedBytes):
        raw = masked_rubbish(decoded)
    (record,) = RowWriter(body=1 << 20).rows(decoded, (seq,))
    shown = encoded(base64.b64encode(raw).decode())
    return b'{"record":%b,"bytes":%b,"fields":%b,"view":%b}' % (record, shown, encoded(fields), encoded(view))

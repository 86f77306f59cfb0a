"""Frames: rows of them, and one of them with its fields and bytes."""

from __future__ import annotations

import asyncio
import base64

import msgspec
from fastapi import APIRouter, Response

from amqproxy.capture.decoded import DecodedFrames, DecodedProtocolHeader, SkippedBytes
from amqproxy.capture.secrets import masked_rubbish
from amqproxy.taps.record import encoded
from dashboard.api.dependencies import SeqOf, SourceOf
from dashboard.api.queries import ListQueryOf, frame_selection
from dashboard.api.responses import json_response, page_response
from dashboard.dissection import Field, dissected
from dashboard.frame_query import entries_for, find
from dashboard.problem import Problem
from dashboard.ring import RingEntry
from dashboard.row_writer import RowWriter

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
    )  # what comes meanwhile is not looked at
    return page_response(await asyncio.to_thread(find, entries, selection, query), first, end)


@router.get("/sources/{source}/frames/{seq}")
async def show_frame(source: SourceOf, seq: SeqOf) -> Response:
    """One frame: its record, its bytes, and its fields with the bytes that they are in."""
    entry = source.ring.entry_of(seq)
    if entry is None:
        raise Problem(404, f"there is no frame {seq}: {source.ring.first_seq} to {source.ring.next_seq - 1} are kept")
    return json_response(await asyncio.to_thread(_dissected, entry, seq))


def _dissected(entry: RingEntry, seq: int) -> bytes:
    decoded = entry.fresh()
    raw, fields = b"", list[Field]()
    if isinstance(decoded, DecodedFrames):
        frame = decoded.frames[seq - entry.seq]
        raw, fields = dissected(frame)
        decoded = msgspec.structs.replace(decoded, frames=[frame])
    elif isinstance(decoded, DecodedProtocolHeader | SkippedBytes):
        raw = masked_rubbish(decoded.data)
    (record,) = RowWriter(body=1 << 20).rows(decoded, (seq,))
    shown = encoded(base64.b64encode(raw).decode())
    return b'{"record":%b,"bytes":%b,"fields":%b}' % (record, shown, encoded(fields))

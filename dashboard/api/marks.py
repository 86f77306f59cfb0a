"""Marks of frames, with comments."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import Field

from amqproxy.dashboard.api.actions import Body
from amqproxy.dashboard.api.control import ActorOf
from amqproxy.dashboard.api.dependencies import SeqOf, SourceOf
from amqproxy.dashboard.api.responses import json_response
from amqproxy.dashboard.marks import MAX_TEXT, TooManyMarks
from amqproxy.dashboard.problem import Problem
from amqproxy.dashboard.source import Source

router = APIRouter(tags=["frames"])


class MarkBody(Body):
    """A comment, which may be empty."""

    text: Annotated[str, Field(max_length=MAX_TEXT)] = ""


@router.get("/sources/{source}/marks")
async def list_marks(source: SourceOf) -> Response:
    """The marked frames that are still kept, by row, with their comments."""
    return json_response({"marks": _kept(source)})


@router.put("/sources/{source}/marks/{seq}")
async def mark(source: SourceOf, seq: SeqOf, actor: ActorOf, body: MarkBody) -> Response:
    """Mark a frame for all viewers; an exported capture has the comment in the frame's packet."""
    if not source.ring.first_seq <= seq < source.ring.next_seq:
        raise Problem(404, f"there is no row {seq}: {source.ring.first_seq} to {source.ring.next_seq - 1} are kept")
    _kept(source)
    try:
        source.marks.put(seq, body.text)
    except TooManyMarks as error:
        raise Problem(409, str(error)) from None
    return json_response({"marks": source.marks.texts})


@router.delete("/sources/{source}/marks/{seq}")
async def remove_mark(source: SourceOf, seq: SeqOf, actor: ActorOf) -> Response:
    """Remove the mark of a frame."""
    source.marks.remove(seq)
    return json_response({"marks": source.marks.texts})


def _kept(source: Source) -> dict[int, str]:
    """Return the marks, after forgetting those of rows that were overwritten."""
    for seq in [seq for seq in source.marks.texts if seq < source.ring.first_seq]:
        source.marks.remove(seq)
    return source.marks.texts

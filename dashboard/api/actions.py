"""Operator actions: close, pause and resume connections, release held commands, start and stop recordings."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from fastapi import Path as PathParameter
from pydantic import BaseModel, ConfigDict, Field

from amqproxy.dashboard.api.connections import SessionOf
from amqproxy.dashboard.api.control import ActorOf, asked
from amqproxy.dashboard.api.dependencies import MAX_INTEGER, SourceOf
from amqproxy.dashboard.api.responses import json_response

router = APIRouter(tags=["actions"])

MAX_TEXT = 255
"""Maximum size of a reply text, in bytes."""


class Body(BaseModel):
    """Body of a request, without further keys."""

    model_config = ConfigDict(extra="forbid")


class ChannelBody(Body):
    """A connection, or one channel of it."""

    channel: Annotated[int, Field(ge=1, le=65535)] | None = None


class CloseBody(ChannelBody):
    """With the reply text that the client is sent."""

    text: Annotated[str, Field(max_length=MAX_TEXT)] | None = None


class ReleaseBody(Body):
    """Verdict on a held command, as in the control socket's `release`."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    verdict: Literal["pass", "drop", "refuse"] = "pass"
    edit: dict[str, Any] | None = None
    with_: str | None = Field(default=None, alias="with")
    code: Annotated[int, Field(ge=200, le=999)] | None = None
    text: Annotated[str, Field(max_length=MAX_TEXT)] | None = None


class RecordBody(Body):
    """Keys of `[record]`, in place of the proxy's own."""

    settings: dict[str, Any] | None = None


@router.post("/sources/{source}/connections/{session}/close")
async def close(source: SourceOf, session: SessionOf, actor: ActorOf, body: CloseBody) -> Response:
    """Close a connection, or a channel of it."""
    return json_response(await actor.does(source, "close", session=session, channel=body.channel, text=body.text))


@router.post("/sources/{source}/connections/{session}/pause")
async def pause(source: SourceOf, session: SessionOf, actor: ActorOf, body: ChannelBody) -> Response:
    """Read nothing more from a client, or let what it sends on one channel wait."""
    return json_response(await actor.does(source, "pause", session=session, channel=body.channel))


@router.post("/sources/{source}/connections/{session}/resume")
async def resume(source: SourceOf, session: SessionOf, actor: ActorOf, body: ChannelBody) -> Response:
    """End a pause."""
    return json_response(await actor.does(source, "resume", session=session, channel=body.channel))


@router.get("/sources/{source}/held")
async def list_held(source: SourceOf, body: Annotated[int, Query(ge=0, le=1 << 20)] = 1024) -> Response:
    """The commands that rules hold, with the first `body` bytes of their bodies."""
    return json_response(await asked(source, "held", body=body))


@router.post("/sources/{source}/held/{session}/{number}/release")
async def release(
    source: SourceOf,
    session: SessionOf,
    number: Annotated[int, PathParameter(ge=0, le=MAX_INTEGER)],
    actor: ActorOf,
    body: ReleaseBody,
) -> Response:
    """Release a held command: as it is, edited, dropped or refused."""
    keys = {"verdict": body.verdict, "edit": body.edit, "with": body.with_, "code": body.code, "text": body.text}
    return json_response(await actor.does(source, "release", session=session, number=number, **keys))


@router.get("/sources/{source}/recording")
async def show_recording(source: SourceOf) -> Response:
    """Return the state of the recording."""
    return json_response(await asked(source, "record-status"))


@router.post("/sources/{source}/recording/start")
async def start_recording(source: SourceOf, actor: ActorOf, body: RecordBody) -> Response:
    """Begin a recording."""
    return json_response(await actor.does(source, "record-start", settings=body.settings))


@router.post("/sources/{source}/recording/stop")
async def stop_recording(source: SourceOf, actor: ActorOf) -> Response:
    """End the recording, once all that has passed is written."""
    return json_response(await actor.does(source, "record-stop"))

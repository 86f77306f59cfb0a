"""One message, to be edited and published again on a connection of its own."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Response
from pydantic import Field

from amqproxy.amqp091.commands import Command
from amqproxy.configuration.config_file import explained
from amqproxy.control.message_patch import MessagePatch
from amqproxy.dashboard.amqp010_resend import amqp010_conversation, edited_transfer, transfer_of
from amqproxy.dashboard.api.actions import Body
from amqproxy.dashboard.api.captures import ReplaysOf
from amqproxy.dashboard.api.control import ActorOf
from amqproxy.dashboard.api.dependencies import SeqOf, SourceOf
from amqproxy.dashboard.api.messages import content_of, row_of
from amqproxy.dashboard.api.responses import json_response
from amqproxy.dashboard.problem import Problem
from amqproxy.dashboard.replays import Replay, ReplayPlan, TooManyReplays
from amqproxy.dashboard.resend import conversation, edited, publish_of, write_conversation
from amqproxy.dashboard.source import Source
from amqproxy.replay.target import TargetError
from amqproxy.taps.dialects import method_arguments
from amqproxy.taps.record import json_mapping

router = APIRouter(tags=["messages"])


class ResendBody(Body):
    """The broker, as an AMQP URL or HOST:PORT, and changes, as the control socket's `release` has them in `edit`.

    Messages of 0-10 can be sent in either `protocol`.
    """

    to: Annotated[str, Field(min_length=1, max_length=4096)]
    protocol: Literal["0-9-1", "0-10"] = "0-9-1"
    edit: Annotated[dict[str, Any], Field(default_factory=dict)]


@router.get("/sources/{source}/messages/{seq}/publish")
async def show_publish(source: SourceOf, seq: SeqOf) -> Response:
    """The message as a publish in terms of 0-9-1; `body` is null if it is not text, or not all of it is kept."""
    publish, size = _publish(source, seq)
    arguments = method_arguments(publish.method)
    return json_response(
        {
            "exchange": arguments.get("exchange"),
            "routing_key": arguments.get("routing_key"),
            "properties": json_mapping(publish.properties.present()),
            "body": _text(publish.body) if len(publish.body) == size else None,
            "size": size,
            "kept": len(publish.body),
            "protocol": "0-9-1" if transfer_of(content_of(source, seq)) is None else "0-10",
            "vhost": _virtual_host(source, seq),
        }
    )


@router.post("/sources/{source}/messages/{seq}/publish", status_code=202)
async def publish_again(source: SourceOf, seq: SeqOf, replays: ReplaysOf, actor: ActorOf, body: ResendBody) -> Response:
    """Publish the message, as it was or edited, by `amqproxy replay`; return the replay, which has the confirm."""
    publish, size = _publish(source, seq)
    transfer = transfer_of(content_of(source, seq)) if body.protocol == "0-10" else None
    if transfer is None and body.protocol == "0-10":
        raise Problem(409, f"message {seq} is not of AMQP 0-10: send it as 0-9-1")
    host = _virtual_host(source, seq)
    try:
        patch = msgspec.convert(body.edit, MessagePatch)
        if transfer is None:
            sent = conversation(edited(publish, patch), host)
        else:
            sent = amqp010_conversation(edited_transfer(transfer, patch), host)
    except msgspec.ValidationError as error:
        raise Problem(400, f"edit: {explained(error)}") from None
    except ValueError as error:
        raise Problem(400, f"edit: {error}", error="wrong-edit") from None
    if patch.body is None and len(publish.body) < size:
        raise Problem(409, f"only {len(publish.body)} of the {size} bytes of its body are kept: give it another body")
    directory = tempfile.TemporaryDirectory(prefix="amqproxy-resend-")
    path = Path(directory.name) / f"message-{seq}.pcapng"
    fields = {"message": seq, "edited": bool(body.edit)}

    def on_end(replay: Replay) -> None:
        directory.cleanup()
        actor.log("resend", source, str(replay.state), to=replay.target, replay=replay.number, **fields)

    try:
        await asyncio.to_thread(write_conversation, path, sent)
        url = body.to if "://" in body.to else f"amqp://{body.to}"
        started = replays.start(ReplayPlan(path=path, url=url, speed=None), actor.name, on_end)
    except BaseException as error:
        directory.cleanup()
        if isinstance(error, TooManyReplays):
            raise Problem(409, str(error)) from None
        if isinstance(error, ValueError):  # `urlsplit` raises it, too
            detail = str(error) if isinstance(error, TargetError) else "the URL cannot be read"
            raise Problem(400, f"to: {detail}") from None
        raise
    actor.log("resend", source, "started", to=started.target, replay=started.number, **fields)
    return json_response(started.describe(), 202)


def _publish(source: Source, seq: int) -> tuple[Command, int]:
    """Return the message as a publish, and the size of its body; `Problem` without a message."""
    content = content_of(source, seq)
    publish = publish_of(content)
    if publish is None:
        raise Problem(404, f"message {seq} cannot be published")
    return publish, content.size


def _virtual_host(source: Source, seq: int) -> str:
    row = row_of(source.observed.messages, seq)
    return source.observed.connections.client_of(row.stream, row.connection, row.frame).vhost or "/"


def _text(body: bytes) -> str | None:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None

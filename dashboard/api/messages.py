"""Messages with their outcomes, their bodies, and findings."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, ConfigDict
from pydantic import Field as PydanticField

from amqproxy.bodies.body_child import BodyTask
from amqproxy.bodies.body_views import Form, NotInForm
from amqproxy.dashboard.api.dependencies import SeqOf, SourceOf
from amqproxy.dashboard.api.queries import ListQueryOf, message_selection
from amqproxy.dashboard.api.responses import json_response, page_response
from amqproxy.dashboard.body_reader import BodyReader, TooManyBodies
from amqproxy.dashboard.completions import fields, seen_values
from amqproxy.dashboard.evidence import packets_of, shown_finding
from amqproxy.dashboard.finding_selection import FindingSelection
from amqproxy.dashboard.message_query import find_messages
from amqproxy.dashboard.message_ring import Content, MessageRing, MessageRow
from amqproxy.dashboard.problem import Problem
from amqproxy.dashboard.rule_view import message_rule_view
from amqproxy.dashboard.source import Source
from amqproxy.taps.dialects import method_arguments
from amqproxy.taps.record import encoded, json_mapping

router = APIRouter(tags=["messages"])

MAX_SHOWN_USES = 1000

MAX_COMPLETED = 2000
"""Maximum number of connections whose users and names complete a filter."""


def bodies_of(request: Request) -> BodyReader:
    """Return the application's body decoder."""
    found = request.app.state.bodies
    assert isinstance(found, BodyReader)
    return found


BodiesOf = Annotated[BodyReader, Depends(bodies_of)]


@router.get("/sources/{source}/messages")
async def list_messages(source: SourceOf, query: ListQueryOf) -> Response:
    """Messages and requests, in the order in which it was known what became of them; the newest last."""
    ring = source.observed.messages
    selection, rows = message_selection(source, query), ring.snapshot()
    first, end = ring.first_seq, ring.next_seq  # messages that arrive meanwhile are not searched
    return page_response(await asyncio.to_thread(find_messages, rows, selection, query), first, end)


@router.get("/sources/{source}/findings")
async def list_findings(source: SourceOf, query: ListQueryOf) -> Response:
    """Findings, the newest last. `filter` has words, or `kind:NAME`; "-" before one excludes findings with it."""
    ring = source.observed.findings
    selection, rows = FindingSelection(query.filter, query.place), ring.snapshot()
    first, end = ring.first_seq, ring.next_seq  # findings that arrive meanwhile are not searched
    return page_response(await asyncio.to_thread(find_messages, rows, selection, query), first, end)


@router.get("/sources/{source}/findings/{seq}")
async def show_finding(source: SourceOf, seq: SeqOf) -> Response:
    """One finding. `command` in its evidence is the frame that begins the command, while it is kept."""
    row = source.observed.findings.rows.get(seq)
    if row is None:
        raise Problem(404, f"there is no finding {seq}, or it is not kept any more")
    finding: dict[str, Any] = msgspec.json.decode(row.to_json())
    return json_response(await asyncio.to_thread(shown_finding, finding, packets_of(finding, source.ring)))


@router.get("/sources/{source}/readiness")
async def show_readiness(source: SourceOf) -> Response:
    """Readiness for the newest RabbitMQ: who would break, the worst first, and `rules` of the proxy that bridge it.

    The uses are those in findings `rabbitmq4-*`, also in ones that are not kept any more; the first 1,000 are shown.
    """
    report = source.observed.uses.readiness()
    shown = msgspec.structs.asdict(report) | {"uses": report.uses[:MAX_SHOWN_USES]}
    return json_response({**shown, "verdict": report.verdict, "rules": report.rules})


@router.get("/sources/{source}/completions")
async def show_completions(source: SourceOf) -> Response:
    """Completions of a filter: its fields, and the values of some of them that were seen most."""
    observed = source.observed
    connections = list(observed.connections.seen.values())[-MAX_COMPLETED:]
    values = await asyncio.to_thread(seen_values, observed.messages.snapshot(), connections)
    return json_response({"fields": fields(), "values": values})


@router.get("/sources/{source}/messages/{seq}")
async def show_message(source: SourceOf, seq: SeqOf) -> Response:
    """One message: its record, and all of its method and properties; `view` as rules see it, of 0-10.

    `body` says how much of it is kept.
    """
    row = row_of(source.observed.messages, seq)
    content = row.content
    shown: dict[str, object] = {}
    if content is not None:
        shown = {
            "method": content.method.name,
            "arguments": method_arguments(content.method),
            "properties": json_mapping(content.properties.present()),
            "body": {"size": content.size, "kept": len(content.body)},
        }
    view = None if content is None else message_rule_view(content)
    return json_response(
        b'{"record":%b,"content":%b,"view":%b}' % (row.to_json(), encoded(shown or None), encoded(view))
    )


class BodyQuery(BaseModel):
    """Body options; `schema` is of Avro in JSON, or a .proto file, of which `message` is one of the messages."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    form: Form = PydanticField(default="auto", alias="as")
    schema_: Annotated[str, PydanticField(alias="schema", max_length=1024 * 1024)] = ""
    message: Annotated[str, PydanticField(max_length=1000)] = ""


@router.get("/sources/{source}/messages/{seq}/body")
async def show_body(
    source: SourceOf, seq: SeqOf, bodies: BodiesOf, form: Annotated[Form, Query(alias="as")] = "auto"
) -> Response:
    """A body in the form in which it is readable, or in another one."""
    return await body_response(source, seq, bodies, BodyQuery.model_validate({"as": form}))


@router.post("/sources/{source}/messages/{seq}/body")
async def show_body_by_schema(source: SourceOf, seq: SeqOf, bodies: BodiesOf, body: BodyQuery) -> Response:
    """The body of a message, decoded by a schema."""
    return await body_response(source, seq, bodies, body)


@router.get("/sources/{source}/messages/{seq}/body/raw")
async def download_body(source: SourceOf, seq: SeqOf) -> Response:
    """The bytes, as far as they are kept, as a file."""
    content = content_of(source, seq)
    headers = {"content-disposition": f'attachment; filename="message-{seq}.bin"'}
    return Response(content.body, media_type="application/octet-stream", headers=headers)


async def body_response(source: Source, seq: int, bodies: BodyReader, query: BodyQuery) -> Response:
    """Return a body's view, with how much of the body is kept; `Problem` if it cannot be decoded."""
    content = content_of(source, seq)
    task = BodyTask(
        body=content.body,
        form=query.form,
        content_type=content.properties.content_type or "",
        content_encoding=content.properties.content_encoding or "",
        schema=query.schema_,
        message=query.message,
    )
    try:
        view = await bodies.view(task)
    except NotInForm as error:
        raise Problem(422, str(error)) from None
    except TooManyBodies as error:
        raise Problem(503, str(error)) from None
    kept = len(content.body)
    return json_response(
        {
            "as": view.form,
            "text": view.text,
            "unpacked": view.unpacked,
            "is_cut": view.is_cut or kept < content.size,
            "size": content.size,
            "kept": kept,
        }
    )


def content_of(source: Source, seq: int) -> Content:
    """Return the command of a message with a body; `Problem` if it has none."""
    content = row_of(source.observed.messages, seq).content
    if content is None or not content.method.carries_content:
        raise Problem(404, f"message {seq} has no body, or it is not kept any more")
    return content


def row_of(ring: MessageRing, seq: int) -> MessageRow:
    """Return the row with this number; `Problem` if it is not kept."""
    row = ring.rows.get(seq)
    if row is None:
        raise Problem(404, f"there is no message {seq}: {ring.first_seq} to {ring.next_seq - 1} are kept")
    return row

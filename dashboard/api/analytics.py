"""Analytics over the pipeline's tables of recordings: traffic, latencies, findings, usage."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel

from amqproxy.dashboard.problem import Problem
from amqproxy.dashboard.table_queries import TableQueries
from amqproxy.pipeline.span import HOUR, Span, Step, Subject, TooManyPoints

router = APIRouter(prefix="/analytics", tags=["analytics"])

DEFAULT_HOURS = 24
"""Hours up to the newest row that are shown if the request names no time."""

MAX_NAME = 1000

Time = Annotated[int | None, Query(ge=0, le=2**63 - 1)]
Limit = Annotated[int, Query(ge=1, le=1000)]
Name = Annotated[str | None, Query(max_length=MAX_NAME)]


class TablesInfo(BaseModel):
    """Tables that exist, with their first and last times in ns since 1970; null for an empty one."""

    path: str | None
    tables: list[str]
    start_ns: int | None
    end_ns: int | None


class Asked(BaseModel):
    """The question as it was answered, with its defaults filled in."""

    start_ns: int
    end_ns: int
    step: Step
    by: Subject
    name: str | None
    virtual_host: str | None


class Counts(BaseModel):
    """Numbers of messages and bytes."""

    published: int
    published_bytes: int
    confirmed: int
    nacked_publishes: int
    returned: int
    delivered: int
    delivered_bytes: int
    acked: int
    nacked: int
    rejected: int
    redelivered: int
    errors: int


class TrafficPoint(Counts):
    """Counts of one step, which begins at `ts_ns`."""

    ts_ns: int


class Traffic(BaseModel):
    """Steps in which there was nothing are left out."""

    asked: Asked
    points: list[TrafficPoint]


class LatencyPoint(BaseModel):
    """Percentiles of one step, in ns: publish → confirm, deliver → acknowledgement, publish → delivery."""

    ts_ns: int
    confirm_count: int
    confirm_p50: int | None
    confirm_p90: int | None
    confirm_p99: int | None
    confirm_max: int | None
    ack_count: int
    ack_p50: int | None
    ack_p90: int | None
    ack_p99: int | None
    ack_max: int | None
    transit_count: int
    transit_p50: int | None
    transit_p90: int | None
    transit_p99: int | None
    transit_max: int | None


class Latencies(BaseModel):
    """Steps in which nothing was settled are left out."""

    asked: Asked
    points: list[LatencyPoint]


class TopRow(Counts):
    """An exchange, a queue, a user or a connection."""

    name: str | None
    virtual_host: str | None


class Usage(BaseModel):
    """Amounts sent and received."""

    user: str | None
    virtual_host: str | None
    published: int
    published_bytes: int
    delivered: int
    delivered_bytes: int


class ClientRow(Usage):
    """A client, by the name that it gave itself, or else by its connection."""

    name: str | None


class ErrorRow(BaseModel):
    """Errors that are alike; `text` and `connection` are of the newest."""

    kind: str | None
    code: int | None
    method: str | None
    count: int
    connections: int
    last_ns: int
    text: str | None
    connection: str | None


class FindingRow(BaseModel):
    """A kind of finding, with the newest of it."""

    kind: str | None
    severity: str | None
    count: int
    connections: int
    last_ns: int
    connection: str | None
    channel: int | None
    text: str | None
    why: str | None
    remedy: str | None


class AnomalyRow(BaseModel):
    """A value far from those of the same hours of earlier days. `evidence` is JSON."""

    ts_ns: int
    subject: str | None
    name: str | None
    virtual_host: str | None
    measure: str | None
    value: float | None
    expected: float | None
    deviation: float | None
    score: float | None
    text: str | None
    evidence: str | None


class Column(BaseModel):
    """A column of an answer; durations are in ns, times in ns since 1970."""

    name: str
    title: str
    kind: Literal["text", "number", "time", "duration", "bytes", "share", "flag"]


class PanelInfo(BaseModel):
    """A question whose answer is shown as it is. `about` explains its columns."""

    name: str
    title: str
    about: str


class Panels(BaseModel):
    panels: list[PanelInfo]


class Answer(BaseModel):
    """Rows of the answer to a question, each with a value for each column."""

    asked: Asked
    question: str
    columns: list[Column]
    rows: list[list[str | bool | int | float | None]]


class Top(BaseModel):
    asked: Asked
    rows: list[TopRow]


class Clients(BaseModel):
    asked: Asked
    rows: list[ClientRow]


class Errors(BaseModel):
    asked: Asked
    rows: list[ErrorRow]


class Findings(BaseModel):
    asked: Asked
    rows: list[FindingRow]


class Anomalies(BaseModel):
    asked: Asked
    rows: list[AnomalyRow]


class Capacity(BaseModel):
    asked: Asked
    rows: list[Usage]


def table_queries_of(request: Request) -> TableQueries:
    """Return the pipeline tables of the application; `Problem` if it has none."""
    found = request.app.state.tables
    if found is None:
        raise Problem(404, "there are no tables: name them with `amqproxy dashboard --tables DIR`")
    assert isinstance(found, TableQueries)
    return found


TablesOf = Annotated[TableQueries, Depends(table_queries_of)]


async def span_of(
    tables: TablesOf,
    start: Time = None,
    end: Time = None,
    step: Annotated[Step | None, Query()] = None,
    by: Annotated[Subject, Query()] = Subject.ALL,
    name: Name = None,
    virtual_host: Name = None,
) -> Span:
    """Return the requested span: by default the last `DEFAULT_HOURS` of the tables. `Problem` if it is invalid."""
    if start is None or end is None:
        there = await tables.ask(lambda asked: asked.span()) or (0, 0)
        end = there[1] if end is None else end
        start = max(there[0], end - DEFAULT_HOURS * HOUR) if start is None else start
    if end < start:
        raise Problem(400, "the end is before the start")
    try:
        return Span.chosen(start, end, step, by, name or None, virtual_host)
    except TooManyPoints as error:
        raise Problem(400, str(error)) from None


SpanOf = Annotated[Span, Depends(span_of)]


@router.get("")
async def show_tables(request: Request) -> TablesInfo:
    """Tables that exist, with their first and last times."""
    tables: TableQueries | None = request.app.state.tables
    if tables is None:
        return TablesInfo(path=None, tables=[], start_ns=None, end_ns=None)
    names = await tables.ask(lambda asked: asked.names())
    start, end = await tables.ask(lambda asked: asked.span()) or (None, None)
    return TablesInfo(path=tables.path, tables=names, start_ns=start, end_ns=end)


@router.get("/traffic")
async def show_traffic(tables: TablesOf, span: SpanOf) -> Traffic:
    """Messages, bytes and errors in each step: all, or those of one exchange, queue, user or connection."""
    return Traffic.model_validate(_answer(span, "points", await tables.ask(lambda asked: asked.traffic(span))))


@router.get("/latencies")
async def show_latencies(tables: TablesOf, span: SpanOf) -> Latencies:
    """Percentiles of latencies in each step."""
    return Latencies.model_validate(_answer(span, "points", await tables.ask(lambda asked: asked.latencies(span))))


@router.get("/top")
async def show_top(tables: TablesOf, span: SpanOf, limit: Limit = 20) -> Top:
    """The busiest exchanges, queues, users or connections: what `by` says."""
    return Top.model_validate(_answer(span, "rows", await tables.ask(lambda asked: asked.top(span, limit))))


@router.get("/clients")
async def show_clients(tables: TablesOf, span: SpanOf, limit: Limit = 20) -> Clients:
    """The busiest clients."""
    return Clients.model_validate(_answer(span, "rows", await tables.ask(lambda asked: asked.clients(span, limit))))


@router.get("/errors")
async def show_errors(tables: TablesOf, span: SpanOf, limit: Limit = 50) -> Errors:
    """Return the errors, the most frequent first."""
    return Errors.model_validate(_answer(span, "rows", await tables.ask(lambda asked: asked.errors(span, limit))))


@router.get("/findings")
async def show_findings(tables: TablesOf, span: SpanOf, limit: Limit = 50) -> Findings:
    """Return the findings, the most severe first."""
    return Findings.model_validate(_answer(span, "rows", await tables.ask(lambda asked: asked.findings(span, limit))))


@router.get("/anomalies")
async def show_anomalies(tables: TablesOf, span: SpanOf, limit: Limit = 50) -> Anomalies:
    """Return the anomalies: values far from those of the same hours of earlier days, the farthest first."""
    return Anomalies.model_validate(_answer(span, "rows", await tables.ask(lambda asked: asked.anomalies(span, limit))))


@router.get("/capacity")
async def show_capacity(tables: TablesOf, span: SpanOf, limit: Limit = 100) -> Capacity:
    """Bytes and messages that each tenant, which is a virtual host, has sent and received, by user."""
    return Capacity.model_validate(_answer(span, "rows", await tables.ask(lambda asked: asked.capacity(span, limit))))


@router.get("/answers")
async def show_panels() -> Panels:
    """The questions of `answers/{question}`."""
    from amqproxy.pipeline.questions import PANELS, QUESTIONS

    return Panels(
        panels=[
            PanelInfo(name=name, title=QUESTIONS[name].title, about=QUESTIONS[name].about.strip()) for name in PANELS
        ]
    )


@router.get("/answers/{question}")
async def show_answer(tables: TablesOf, span: SpanOf, question: str, limit: Limit = 50) -> Answer:
    """The answer to a question of `amqproxy pipeline ask`, compared with the time just before if it compares."""
    from amqproxy.pipeline.questions import PANELS
    from amqproxy.pipeline.questions.text import head, kind, utc

    if question not in PANELS:
        raise Problem(404, f"there is no answer {question!r}; there are {', '.join(PANELS)}")
    rows = await tables.ask(lambda asked: asked.answer(question, span, limit))
    names = list(rows[0]) if rows else []
    kinds = {each: next((kind(each, row[each]) for row in rows if row[each] is not None), "text") for each in names}
    columns = [{"name": each, "title": head(each), "kind": kinds[each]} for each in names]

    def plain(value: Any) -> Any:
        return round(utc(value).timestamp() * 1e6) * 1000 if isinstance(value, datetime) else value

    values = [[plain(row[each]) for each in names] for row in rows]
    return Answer.model_validate(_answer(span, "rows", values) | {"question": question, "columns": columns})


def _answer(span: Span, name: str, rows: Sequence[Any]) -> dict[str, Any]:
    asked = {each: getattr(span, each) for each in span.__struct_fields__}
    return {"asked": asked, name: rows}

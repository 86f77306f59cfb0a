"""The workbench: runs over the messages of a queue, of the integrated broker or of one behind the proxy."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Depends, Request, Response
from fastapi import Path as PathParameter
from fastapi.responses import FileResponse
from pydantic import Field

from amqproxy.configuration.tls_config import ClientTLS
from amqproxy.configuration.upstream_config import UpstreamConfig
from amqproxy.dashboard.api.actions import Body
from amqproxy.dashboard.api.broker_login import BrokerLoginOf, broker_logins_of, has_own_broker
from amqproxy.dashboard.api.control import Actor, ActorOf, told_problems
from amqproxy.dashboard.api.dependencies import MAX_INTEGER, SourceOf
from amqproxy.dashboard.api.responses import json_response
from amqproxy.dashboard.broker_logins import BrokerLogin, broker_cookie_of
from amqproxy.dashboard.broker_objects import first_of, pieces_of
from amqproxy.dashboard.problem import Problem
from amqproxy.dashboard.source import Source
from amqproxy.dashboard.workbench_runs import RunRefused, WorkbenchRun, WorkbenchRuns, audit_file
from amqproxy.moving.move_job import MoveEnd
from amqproxy.rules.matching.filters import compiled
from amqproxy.workbench.run_task import EveryMessage, OneMessage, RunTask

router = APIRouter(tags=["workbench"])

MOST_PEEKED = 500
"""Maximum number of messages of one peek."""

FACTS_SECONDS = 30.0
"""Seconds for the facts about a queue."""

DRAINED = "drained"
"""Directory of drained messages, beside the audit."""

Name = Annotated[str, Field(max_length=1000)]
Properties = dict[str, Any]


class QueueBody(Body):
    """A queue; `type` and `delivery_limit` (-1: none) are needed where neither the dashboard nor an API knows them."""

    vhost: Name = "/"
    queue: Name
    type: Literal["", "classic", "quorum", "stream"] = ""
    delivery_limit: Annotated[int, Field(ge=-1, lt=2**31)] | None = None


class OneBody(Body):
    """A message of a peek, by its position and `digest`, and what it is to be afterwards."""

    position: Annotated[int, Field(ge=0, le=MAX_INTEGER)]
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    properties: Properties
    body: Annotated[str, Field(max_length=1 << 20)] | None = None


class EveryBody(Body):
    """Changes of every chosen message: a property that is null is removed, as are headers in `without`."""

    properties: Annotated[Properties, Field(default_factory=dict)]
    headers: Annotated[Properties, Field(default_factory=dict)]
    without: Annotated[list[Name], Field(default_factory=list, max_length=100)]
    body: Annotated[str, Field(max_length=1 << 20)] | None = None


class RunBody(QueueBody):
    """A run, as `amqproxy queue` does it: over messages for which `where`, in CEL, holds, and `limit` of them at most.

    `move` needs `to`, a queue, or `exchange`; `requeue` leads dead letters back `by` exchange or queue; `edit`
    changes `one` message or `every` chosen one, which goes to the end of the queue, or, with `goes_back`, to where it
    died; `drain` writes to a new `file`, which ends with .jsonl or .pcapng, and gets a number before that. A
    `dry_run` says what would happen.
    """

    command: Literal["peek", "move", "requeue", "edit", "drain"]
    where: Annotated[str, Field(max_length=10_000)] | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_INTEGER)] | None = None
    window: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    dry_run: bool = False
    to: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    exchange: Annotated[str, Field(max_length=255)] | None = None
    routing_key: Annotated[str, Field(max_length=255)] | None = None
    by: Literal["exchange", "queue"] = "exchange"
    goes_back: bool = False
    one: OneBody | None = None
    every: EveryBody | None = None
    file: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,90}\.(jsonl|pcapng)$")] | None = None


def runs_of(request: Request) -> WorkbenchRuns:
    """Return the runs of the application."""
    found = request.app.state.workbench_runs
    assert isinstance(found, WorkbenchRuns)
    return found


RunsOf = Annotated[WorkbenchRuns, Depends(runs_of)]


def run_of(
    source: SourceOf, runs: RunsOf, login: BrokerLoginOf, number: Annotated[int, PathParameter(ge=0, le=MAX_INTEGER)]
) -> WorkbenchRun:
    """Return the run of this login whose number is in the path; `Problem` if there is none."""
    found = runs.runs.get(number)
    if found is None or found.source != source.id or found.owner != login.owner:
        raise Problem(404, f"there is no run {number}")
    return found


RunOf = Annotated[WorkbenchRun, Depends(run_of)]


@router.post("/sources/{source}/workbench/facts")
async def show_queue_facts(source: SourceOf, runs: RunsOf, login: BrokerLoginOf, body: QueueBody) -> Response:
    """The type of a queue, and the effects of a run on the order and on `redelivered` of its messages.

    Nothing is touched. `text` is the reason why a run would be refused, or why the broker is not reached.
    """
    task = await _task(source, login, body, command="facts")
    try:
        run = runs.look(source.id, task)
    except RunRefused as error:
        raise Problem(409, str(error), error="busy") from None
    try:
        async with asyncio.timeout(FACTS_SECONDS):
            await asyncio.shield(run.finished)
    except TimeoutError:
        raise Problem(503, "the broker does not answer") from None
    finally:
        run.stop()
    return json_response({"before": run.before, "state": str(run.state), "text": run.text})


@router.post("/sources/{source}/workbench/runs", status_code=202)
async def start_run(source: SourceOf, runs: RunsOf, actor: ActorOf, login: BrokerLoginOf, body: RunBody) -> Response:
    """Begin a run, which continues without the page; two at a time on one queue are refused."""
    await _check(body)
    task = await _task(source, login, body, **_settings(body, actor))
    named = {"vhost": body.vhost, "queue": body.queue, "user": login.user, "dry_run": body.dry_run}

    def on_end(run: WorkbenchRun) -> None:
        actor.log(f"queue-{body.command}", source, str(run.state), run=run.number, done=run.result.get("done"), **named)

    try:
        started = runs.start(source.id, task, actor.name, on_end, login.owner)
    except RunRefused as error:
        raise Problem(409, str(error), error="busy") from None
    actor.log(f"queue-{body.command}", source, "started", run=started.number, **named)
    return json_response(started.describe(), 202)


@router.get("/sources/{source}/workbench/runs")
async def list_runs(request: Request, source: SourceOf, runs: RunsOf) -> Response:
    """The runs of this browser's login to the broker, the newest first, without their messages; none without one."""
    login = broker_logins_of(request).of(broker_cookie_of(request.headers), source.id)
    own = [] if login is None else [each for each in runs.runs.values() if each.owner == login.owner]
    return json_response({"runs": [each.describe() for each in reversed(own) if each.source == source.id]})


@router.get("/sources/{source}/workbench/runs/{number}")
async def show_run(run: RunOf) -> Response:
    """One run, with the messages of a peek, the changes of an edit, and the messages that were left."""
    return json_response(run.describe(is_whole=True))


@router.delete("/sources/{source}/workbench/runs/{number}")
async def stop_run(source: SourceOf, run: RunOf, actor: ActorOf) -> Response:
    """Stop a run after its current batch: what is not done then stays in the queue."""
    if run.is_running:
        actor.log("queue-stop", source, "done", run=run.number)
        run.stop()
    return json_response(run.describe())


@router.get("/sources/{source}/workbench/runs/{number}/file")
async def download_drained(run: RunOf) -> Response:
    """The file of a drain."""
    path = run.task.file
    if not path or run.is_running or run.task.is_dry_run:
        raise Problem(404, "the run has no file, or has not ended")
    if not await asyncio.to_thread(Path(path).is_file):
        raise Problem(404, "the run has made no file, or it was moved")
    return FileResponse(path, media_type="application/octet-stream", filename=path.rpartition("/")[2])


async def _check(body: RunBody) -> None:
    """Raise a `Problem` for a run that lacks something, or whose filter is wrong."""
    needs = {
        "move": ((body.to is None) == (body.exchange is None), "name the queue to which they go, or an exchange"),
        "edit": ((body.one is None) == (body.every is None), "edit one message, or every chosen one"),
        "drain": (body.file is None, "name the file: it ends with .jsonl or .pcapng"),
    }
    is_lacking, text = needs.get(body.command, (False, ""))
    if is_lacking:
        raise Problem(400, text)
    if body.command == "move" and body.to == body.queue:
        raise Problem(400, "the messages are in that queue already")
    if body.command == "peek" and (body.limit is None or body.limit > MOST_PEEKED):
        raise Problem(400, f"limit: a peek shows {MOST_PEEKED} messages at most")
    if body.where is not None:
        try:
            await asyncio.to_thread(compiled, body.where)
        except ValueError as error:
            raise Problem(400, str(error), error="wrong-filter") from None


def _settings(body: RunBody, actor: Actor) -> dict[str, Any]:
    """Return the settings of a run's task."""
    audit = audit_file()
    one = None if body.one is None else OneMessage(**body.one.model_dump())
    every = None
    if body.every is not None:
        given = body.every.model_dump()
        every = EveryMessage(**given | {"without": tuple(given["without"])})
    names = ("command", "where", "limit", "window", "to", "exchange", "routing_key", "by", "goes_back")
    return {name: getattr(body, name) for name in names} | {
        "is_dry_run": body.dry_run,
        "one": one,
        "every": every,
        "file": "" if body.file is None else str(audit.parent / DRAINED / body.file),
        "audit": str(audit),
        "facts": {"dashboard": actor.name, "where": body.where, "limit": body.limit},
    }


async def _task(source: Source, login: BrokerLogin, body: QueueBody, **settings: Any) -> RunTask:
    """Return a task for the queue, with what the integrated broker knows about it."""
    if not login.address:
        raise Problem(409, "where is the broker? Log in with its address", error="no-login")
    kind, limit, api = body.type, body.delivery_limit, login.api
    if source.requests is not None and has_own_broker(source) and login.address in source.listeners:
        with told_problems():
            queue = await first_of(pieces_of(source.requests, "queues", body.vhost, body.queue))
        if queue is None:
            raise Problem(404, f"there is no queue {body.queue!r} in the virtual host {body.vhost!r}")
        kind, api = queue["type"], ""
        limit = -1 if queue["delivery_limit"] is None else queue["delivery_limit"]
    try:
        upstream = UpstreamConfig(address=login.address, tls=ClientTLS() if login.is_tls else None)
    except (ValueError, msgspec.ValidationError) as error:
        raise Problem(400, f"address: {error}") from None
    end = MoveEnd(upstream=upstream, user=login.user, password=login.password)
    return RunTask(end=end, vhost=body.vhost, queue=body.queue, type=kind, delivery_limit=limit, api=api, **settings)

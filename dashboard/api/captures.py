"""Captures to open or to replay to a broker: configured files and directories, and recordings of the proxies."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi import Path as PathParameter
from fastapi.responses import FileResponse
from pydantic import Field

from amqproxy.capture.files import PARTIAL, captures_in
from amqproxy.capture.warnings import CaptureError
from amqproxy.dashboard.api.actions import Body
from amqproxy.dashboard.api.control import ActorOf, asked, can
from amqproxy.dashboard.api.dependencies import MAX_INTEGER, SourcesOf
from amqproxy.dashboard.api.responses import json_response
from amqproxy.dashboard.comparisons import ComparisonFailed, Comparisons, TooManyComparisons
from amqproxy.dashboard.problem import Problem
from amqproxy.dashboard.replays import MAX_DIFFERENCES, Replay, ReplayPlan, Replays, TooManyReplays
from amqproxy.dashboard.source import Source
from amqproxy.dashboard.sources import Sources, TooManySources
from amqproxy.recording.recording_directory import reason_of
from amqproxy.recording.recording_name import NameRefused, rename
from amqproxy.replay.target import TargetError

router = APIRouter(tags=["captures"])

MAX_LISTED = 1000
"""Maximum number of listed captures; of more, the newest are listed."""


DIRECTORY_SECONDS = 1.0
"""Seconds within which a proxy has to report its recording directory, so that other captures are not delayed."""

MAX_CLIENTS = 1000


class OpenBody(Body):
    """The path of a capture, as it was listed."""

    path: Annotated[str, Field(min_length=1, max_length=4096)]


class NameBody(OpenBody):
    """A name for a capture, without its directory; the suffix stays."""

    name: Annotated[str, Field(min_length=1, max_length=255)]


class ReplayBody(OpenBody):
    """A replay, and its target: an AMQP URL, or HOST:PORT. With `loop` 0 it is played until it is ended."""

    to: Annotated[str, Field(min_length=1, max_length=4096)]
    speed: Annotated[float, Field(gt=0, le=1e6)] | Literal["max"] = 1.0
    clients: Annotated[int, Field(ge=1, le=MAX_CLIENTS)] = 1
    loop: Annotated[int, Field(ge=0, le=1_000_000)] = 1


def replays_of(request: Request) -> Replays:
    """Return the replays of the application."""
    found = request.app.state.replays
    assert isinstance(found, Replays)
    return found


def comparisons_of(request: Request) -> Comparisons:
    """Return the comparisons of the application."""
    found = request.app.state.comparisons
    assert isinstance(found, Comparisons)
    return found


CapturePath = Annotated[str, Query(min_length=1, max_length=4096)]
ComparisonsOf = Annotated[Comparisons, Depends(comparisons_of)]
ReplaysOf = Annotated[Replays, Depends(replays_of)]
NumberOf = Annotated[int, PathParameter(ge=0, le=MAX_INTEGER)]


@router.get("/captures")
async def list_captures(sources: SourcesOf) -> Response:
    """The captures that can be opened, the newest first, and which sources show them already."""
    found = await asyncio.to_thread(_listed, await directories(sources), sources.settings.captures)
    shown = {str(path.resolve()): each.id for each in sources.sources.values() if (path := getattr(each, "path", None))}
    for each in found:
        each["source"] = shown.get(each["path"])
    return json_response({"captures": found})


@router.post("/captures/open")
async def open_capture(sources: SourcesOf, actor: ActorOf, body: OpenBody) -> Response:
    """Show one of the captures that are listed, as one more source."""
    path = await _listed_path(sources, body.path)
    try:
        source = sources.open_capture(path)
    except TooManySources as error:
        raise Problem(409, str(error)) from None
    actor.log("capture-open", source, "done", path=body.path)
    return json_response(source.describe(read_only=sources.settings.read_only))


@router.get("/captures/download")
async def download(sources: SourcesOf, path: CapturePath) -> Response:
    """One of the captures that are listed, as it is."""
    found = await _listed_path(sources, path)
    return FileResponse(found, media_type="application/octet-stream", filename=found.name)


@router.post("/captures/name")
async def name_capture(sources: SourcesOf, actor: ActorOf, body: NameBody) -> Response:
    """Give a recording a name, with which no proxy deletes it as one of its oldest; no other file is replaced."""
    path = await _listed_path(sources, body.path, is_to_be_named=True)
    try:
        named = await asyncio.to_thread(rename, path, body.name)
    except NameRefused as error:
        raise Problem(409, str(error)) from None
    except OSError as error:
        raise Problem(409, f"{path.name} cannot be renamed: {reason_of(error)}") from None
    sources.rename(path, named)
    actor.log("capture-name", None, "done", path=body.path, name=named.name)
    return json_response({"path": str(named), "name": named.name})


@router.get("/captures/compare")
async def compare(sources: SourcesOf, comparisons: ComparisonsOf, a: CapturePath, b: CapturePath) -> Response:
    """Two of the captures that are listed, message by message: `amqproxy compare`."""
    one, other = await _listed_path(sources, a), await _listed_path(sources, b)
    try:
        return json_response(await comparisons.compare(one, other))
    except TooManyComparisons as error:
        raise Problem(409, str(error)) from None
    except ComparisonFailed as error:
        raise Problem(422, str(error)) from None


@router.post("/captures/replay", status_code=202)
async def replay(sources: SourcesOf, replays: ReplaysOf, actor: ActorOf, body: ReplayBody) -> Response:
    """Play the client side of one of the captures that are listed to a broker: `amqproxy replay`."""

    def on_end(replay: Replay) -> None:
        actor.log("replay", None, str(replay.state), path=body.path, to=replay.target, replay=replay.number)

    plan = ReplayPlan(
        path=await _listed_path(sources, body.path),
        url=body.to if "://" in body.to else f"amqp://{body.to}",
        speed=None if body.speed == "max" else body.speed,
        clients=body.clients,
        loops=body.loop,
    )
    try:
        started = replays.start(plan, actor.name, on_end)
    except TooManyReplays as error:
        raise Problem(409, str(error)) from None
    except ValueError as error:  # `urlsplit` raises it, too
        detail = str(error) if isinstance(error, TargetError) else "the URL cannot be read"
        raise Problem(400, f"to: {detail}") from None
    actor.log("replay", None, "started", path=body.path, to=started.target, replay=started.number)
    return json_response(started.describe(), 202)


@router.get("/captures/replays")
async def list_replays(
    replays: ReplaysOf, differences: Annotated[int, Query(ge=0, le=MAX_DIFFERENCES)] = 100
) -> Response:
    """The replays, the newest first: how they stand, and the first `differences` of each."""
    return json_response({"replays": [each.describe(differences) for each in reversed(replays.replays.values())]})


@router.delete("/captures/replays/{number}")
async def end_replay(replays: ReplaysOf, number: NumberOf, actor: ActorOf) -> Response:
    """End a replay: what was played by then is reported."""
    found = replays.replays.get(number)
    if found is None:
        raise Problem(404, f"there is no replay {number}")
    if found.is_running:
        actor.log("replay-end", None, "done", replay=number)
        await found.end()
    return json_response(found.describe())


async def _listed_path(sources: Sources, path: str, *, is_to_be_named: bool = False) -> Path:
    """Return this path if it is that of a listed capture; `Problem` otherwise."""
    listed = await asyncio.to_thread(_listed, await directories(sources), sources.settings.captures)
    found = next((each for each in listed if each["path"] == path), None)
    if found is None:
        raise Problem(404, "there is no such capture among those that are listed")
    if is_to_be_named and not found["can_be_named"]:
        raise Problem(409, "only complete captures in a directory are named, not those that were given as files")
    return Path(path)


async def directories(sources: Sources) -> set[Path]:
    """Return the directories with captures: configured ones, and those into which proxies record."""
    found = {path for path in sources.settings.captures if path.is_dir()}
    proxies = [each for each in sources.sources.values() if can(each, "record-status")]
    await asyncio.gather(*(_note_directory(each) for each in proxies))
    return found | {each.recordings for each in proxies if each.recordings is not None}


async def _note_directory(source: Source) -> None:
    """Ask a proxy for its recording directory; if it does not answer in time, the last known one is kept."""
    with suppress(Problem, TimeoutError):
        async with asyncio.timeout(DIRECTORY_SECONDS):
            recording = (await asked(source, "record-status")).get("recording")
        directory = recording.get("directory") if isinstance(recording, dict) else None
        source.recordings = Path(directory) if isinstance(directory, str) and directory else None


def _listed(directories: set[Path], files: tuple[Path, ...]) -> list[dict[str, Any]]:
    paths = {path for path in files if path.is_file()}
    for directory in directories:
        try:
            paths |= set(captures_in(directory))
        except CaptureError:
            continue
    found: list[tuple[float, dict[str, Any]]] = []
    resolved = {directory.resolve() for directory in directories}
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            continue
        real = path.resolve()
        entry = {
            "path": str(real),
            "name": path.name,
            "size": status.st_size,
            "changed_at": status.st_mtime,
            "can_be_named": real.parent in resolved and path not in files and path.suffix != PARTIAL,
        }
        found.append((-status.st_mtime, entry))
    found.sort(key=lambda each: (each[0], each[1]["path"]))
    return [entry for _, entry in found[:MAX_LISTED]]

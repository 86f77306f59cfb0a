"""The sources of the dashboard."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

from amqproxy.dashboard.api.dependencies import SourcesOf
from amqproxy.dashboard.source import SourceState

router = APIRouter(tags=["sources"])


class Rows(BaseModel):
    """The oldest row that is kept, and the number of the next to come."""

    first: int
    next: int


class Sample(BaseModel):
    """Connections that are shown at the same time, of those with traffic: more passes than can be shown."""

    shown: int
    of: int


class SourceDescription(BaseModel):
    """A proxy or a capture: how it stands, and what can be asked of it."""

    id: int
    name: str
    kind: Literal["proxy", "capture"]
    state: SourceState
    reason: str
    version: str | None
    since: float
    restarts: int
    read_only: bool
    can: list[str]
    lost: int
    sample: Sample | None
    listeners: list[str]
    rows: Rows


@router.get("/sources")
async def list_sources(sources: SourcesOf) -> list[SourceDescription]:
    """All sources, by their numbers."""
    return [SourceDescription.model_validate(each) for each in sources.describe()]

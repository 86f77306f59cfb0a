"""Dependencies that the routes share: the sources, and parameters of paths."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from fastapi import Path as PathParameter

from amqproxy.dashboard.problem import Problem
from amqproxy.dashboard.source import Source
from amqproxy.dashboard.sources import Sources

MAX_INTEGER = 2**53
"""Bound on integers that JavaScript represents exactly."""


def sources_of(request: Request) -> Sources:
    """Return the sources of the application."""
    found = request.app.state.sources
    assert isinstance(found, Sources)
    return found


SourcesOf = Annotated[Sources, Depends(sources_of)]


def source_of(sources: SourcesOf, source: Annotated[int, PathParameter(ge=0, le=MAX_INTEGER)]) -> Source:
    """Return the source whose number is in the path; `Problem` if there is none."""
    found = sources.sources.get(source)
    if found is None:
        raise Problem(404, f"there is no source {source}")
    return found


SourceOf = Annotated[Source, Depends(source_of)]
SeqOf = Annotated[int, PathParameter(ge=0, le=MAX_INTEGER)]
"""Number of a row, in the path."""

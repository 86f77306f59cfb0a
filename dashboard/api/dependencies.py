"""What requests of the API have in common."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from fastapi import Path as PathParameter

from dashboard.problem import Problem
from dashboard.source import Source
from dashboard.sources import Sources

MAX_INTEGER = 2**53
"""Numbers that JavaScript has exactly."""


def sources_of(request: Request) -> Sources:
    """The sources of the application that was asked."""
    found = request.app.state.sources
    assert isinstance(found, Sources)
    return found


SourcesOf = Annotated[Sources, Depends(sources_of)]


def source_of(sources: SourcesOf, source: Annotated[int, PathParameter(ge=0, le=MAX_INTEGER)]) -> Source:
    """The source of the path."""
    found = sources.sources.get(source)
    if found is None:
        raise Problem(404, f"there is no source {source}")
    return found


SourceOf = Annotated[Source, Depends(source_of)]
SeqOf = Annotated[int, PathParameter(ge=0, le=MAX_INTEGER)]
"""The number of a row, in the path."""

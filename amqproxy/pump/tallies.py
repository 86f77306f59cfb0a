"""Tallies of both peers' frames, to which pumps add their counts."""

from __future__ import annotations

from collections.abc import MutableSequence
from typing import Protocol


class AnyTally(Protocol):
    """Counts of one peer's frames, and of their bytes, by kind."""

    @property
    def frames(self) -> MutableSequence[int]: ...

    @property
    def byte_counts(self) -> MutableSequence[int]: ...


Tallies = tuple[AnyTally, AnyTally]
"""The tallies of client and server."""

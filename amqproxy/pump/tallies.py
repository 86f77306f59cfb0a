"""Tallies of frames, of either peer of a connection, as pumps add to them."""

from __future__ import annotations

from collections.abc import MutableSequence
from typing import Protocol


class AnyTally(Protocol):
    """Frames of one peer, and their bytes, by kind of frame."""

    @property
    def frames(self) -> MutableSequence[int]: ...

    @property
    def byte_counts(self) -> MutableSequence[int]: ...


Tallies = tuple[AnyTally, AnyTally]
"""The client's, and the server's."""

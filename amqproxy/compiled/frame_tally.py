"""Counters of frames and bytes by kind. This module may be compiled."""

from __future__ import annotations

from array import array

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython


@cython.cclass
class FrameTally:
    """Frames and bytes by kind of frame; shared by all readers that are given it. A protocol numbers its `kinds`."""

    def __init__(self, kinds: int) -> None:
        self.frames = array("Q", bytes(8 * kinds))
        self.byte_counts = array("Q", bytes(8 * kinds))
        self._frames = self.frames
        self._byte_counts = self.byte_counts

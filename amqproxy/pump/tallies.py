"""Tallies of both peers' frames, to which pumps add their counts."""

from __future__ import annotations

from amqproxy.compiled.frame_tally import FrameTally

Tallies = tuple[FrameTally, FrameTally]
"""The tallies of client and server."""

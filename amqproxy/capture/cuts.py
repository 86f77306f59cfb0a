"""Places at which bytes are cut into packets."""

from __future__ import annotations

from typing import TypeAlias

Cuts: TypeAlias = list[tuple[int, int, int]]
"""Packets, as (start, end of the kept bytes, end)."""

"""How many examples a property is tried with."""

from __future__ import annotations

from hypothesis import settings


def example_count(whole: int) -> int:
    """`whole`, or fewer in a profile with fewer than Hypothesis's own hundred."""
    return max(1, whole * settings.default.max_examples // 100)

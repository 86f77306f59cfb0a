"""Suggestions of similar names, for errors about unknown ones."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return the closest of `names`, as in ": did you mean `rewrite`?"; empty if none is close."""
    close = get_close_matches(name, list(names), n=1)
    return f": did you mean `{close[0]}`?" if close else ""

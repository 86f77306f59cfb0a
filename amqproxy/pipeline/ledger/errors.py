"""What is wrong with a directory of tables."""

from __future__ import annotations


class LedgerError(Exception):
    """The directory cannot be used as tables; the text says why, and what to do."""


class Occupied(LedgerError):
    """Another driver writes to these tables."""

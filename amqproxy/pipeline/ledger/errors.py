"""Errors of a directory of tables."""

from __future__ import annotations


class LedgerError(Exception):
    """Raised if the directory cannot be used as tables; the text has the reason and the remedy."""


class Occupied(LedgerError):
    """Raised if another driver writes to these tables."""

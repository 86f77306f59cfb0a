"""Error for commands and changes that a protocol cannot express."""

from __future__ import annotations


class Inexpressible(ValueError):
    """The client's protocol cannot express a change or a command; the text names it, and contains no data of a peer."""

"""What one protocol can say and the other cannot."""

from __future__ import annotations


class Inexpressible(ValueError):
    """AMQP 0-10 has no word for a change, or for a command; the text names it, and has no data of a peer."""

"""Which commands a rule is about."""

from __future__ import annotations

import msgspec


class Match(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All that is given must hold; of several patterns for one thing, any."""

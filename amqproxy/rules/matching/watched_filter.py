"""Filters that report once why they cannot be evaluated."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from amqproxy.rules.matching.filters import Filter, FilterFailed, LookUp, compiled


class WatchedFilter(Filter):
    """A filter of one reader; `warn` receives the reason of its first failure.

    Records on which a filter fails are shown. Without the warning, an expression that fails on every record would seem
    to select all of them.
    """

    __slots__ = ("_has_warned", "_warn")

    def __init__(self, expression: str, warn: Callable[[str], object]) -> None:
        found = compiled(expression)
        for name in Filter.__slots__:
            setattr(self, name, getattr(found, name))
        self.condition = msgspec.structs.replace(found.condition, holds=self._holds_of())
        self._warn = warn
        self._has_warned = False

    def holds(self, look_up: LookUp) -> bool:
        try:
            return super().holds(look_up)
        except FilterFailed as failure:
            if not self._has_warned:
                self._has_warned = True
                self._warn(f"{self.expression!r} fails on some records, which are shown (reported once): {failure}")
            raise

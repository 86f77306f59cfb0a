"""The protocols whose captures can be compared."""

from __future__ import annotations

from typing import Any

from amqproxy.comparison.amqp010.dialect import Amqp010ComparisonDialect
from amqproxy.comparison.amqp091.dialect import Amqp091ComparisonDialect
from amqproxy.comparison.dialect import ComparisonDialect

_DIALECTS: tuple[ComparisonDialect, ...] = (Amqp091ComparisonDialect(), Amqp010ComparisonDialect())

NAMES = frozenset(each.name for each in _DIALECTS)
"""The names of the protocols."""

DIALECTS: dict[type[Any], ComparisonDialect] = {each.frame: each for each in _DIALECTS}
"""The dialects by the classes of their frames."""


def dialect_of_method(method: Any) -> ComparisonDialect:
    """Return the dialect of a method."""
    return next(each for each in _DIALECTS if isinstance(method, each.method))

"""How frames are printed on standard output, and which of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from amqproxy.cli.failure import MISUSED, Failure

if TYPE_CHECKING:
    from amqproxy.rules.filters import Filter
    from amqproxy.taps.record import Record


def renderer(json: bool) -> Callable[[Record], str]:
    if json:
        return lambda record: record.to_json().decode()
    from amqproxy.taps import text

    return text.line


def wanted(expression: str | None) -> Filter | None:
    if expression is None:
        return None
    from amqproxy.rules.filters import compiled

    try:
        return compiled(expression)
    except ValueError as error:
        raise Failure(f"--filter: {error}", MISUSED) from None

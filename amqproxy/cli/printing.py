"""How frames are printed on standard output, and which of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from amqproxy.cli.failure import MISUSED, Failure

if TYPE_CHECKING:
    from amqproxy.rules.matching.filters import Filter
    from amqproxy.taps.message_record import MessageRecord
    from amqproxy.taps.record import Record


USUAL_BODY = 1024
"""Bytes of a body that `--body` shows by default."""


def with_value_of_body(arguments: list[str]) -> list[str]:
    """The arguments with `--body=1024` for a bare `--body`, where that is an option whose value may be left out."""
    if arguments[:1] not in (["decode"], ["run"]):
        return arguments
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = [f"--body={USUAL_BODY}" if each == "--body" else each for each in arguments[:end]]
    return options + arguments[end:]


def checked_body(size: int) -> int:
    if size < 0:
        raise Failure(f"--body={size}: a number of bytes is not negative", MISUSED)
    return size


def renderer(json: bool) -> Callable[[Record], str]:
    if json:
        return lambda record: record.to_json().decode()
    from amqproxy.taps import text

    return text.line


def message_renderer(json: bool) -> Callable[[MessageRecord], str]:
    if json:
        return lambda record: record.to_json().decode()
    from amqproxy.log import is_coloured
    from amqproxy.taps.message_text import message_line

    return partial(message_line, is_coloured=is_coloured(sys.stdout))


def wanted(expression: str | None) -> Filter | None:
    if expression is None:
        return None
    from amqproxy.rules.matching.filters import compiled

    try:
        return compiled(expression)
    except ValueError as error:
        raise Failure(f"--filter: {error}", MISUSED) from None

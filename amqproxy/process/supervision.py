"""One owner for each failure: an error while one guest is served ends that guest, and nothing else.

A guest is anything that the process serves but does not depend on: a client, a queue, a rule, a mirror, a tap, a
scrape. Each is served inside a `contained` block, so that an exception there costs its owner one line in the log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import PurePath
from traceback import extract_tb
from typing import Any

import trio

from amqproxy.process.log import logger

PAUSE = 0.1
"""Seconds before a failed service that everybody needs is restarted."""


class _Contained:
    """The block of `contained`. A class, since a generator costs five times as much, and each turn has such a block."""

    __slots__ = ("_event", "_fields", "_log", "_then")

    def __init__(
        self, event: str, log: Any, then: Callable[[Exception], None] | None, fields: Mapping[str, Any]
    ) -> None:
        self._event = event
        self._log = log
        self._then = then
        self._fields = fields

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, failure: BaseException | None, traceback: object) -> bool:
        if failure is None:
            return True
        passing: BaseException | None = None
        if isinstance(failure, BaseExceptionGroup) and not isinstance(failure, Exception):
            failure, passing = failure.split(Exception)
        elif not isinstance(failure, Exception):
            return False
        if failure is not None:
            with suppress(Exception):  # a failing log must not harm the caller
                report(self._event, failure, log=self._log, **self._fields)
            if self._then is not None:
                self._then(failure)
        if passing is not None:
            raise passing
        return True


def contained(
    event: str, *, log: Any = None, then: Callable[[Exception], None] | None = None, **fields: Any
) -> _Contained:
    """Log an exception raised inside as one line, `event` with `fields`; call `then` with it; continue after the block.

    `log` is the logger to use instead of the default one. The traceback is logged at level debug. Cancellation, and any
    other non-`Exception`, passes through, even in a group together with exceptions.
    """
    return _Contained(event, log, then, fields)


async def supervised(
    event: str, function: Callable[..., Awaitable[object]], *args: Any, then: Callable[[Exception], None] | None = None
) -> None:
    """Call an async function inside a `contained` block, for a nursery task that serves one client, mirror or tap."""
    with contained(event, then=then):
        await function(*args)


async def kept_up(event: str, function: Callable[..., Awaitable[object]], *args: Any) -> None:
    """Run an async function that serves everybody until the end, and restart it, after a pause, if it fails."""
    is_over = False

    async def run() -> None:
        nonlocal is_over
        await function(*args)
        is_over = True

    while not is_over:
        await supervised(event, run)
        if not is_over:
            await trio.sleep(PAUSE)


def guarded(
    event: str, function: Callable[..., object], *args: Any, then: Callable[[Exception], None] | None = None
) -> None:
    """Call a function inside a `contained` block, for callbacks whose exception would end the process."""
    with contained(event, then=then):
        function(*args)


def report(event: str, failure: BaseException, *, log: Any = None, **fields: Any) -> None:
    """Log a failure as one line at level error, and its traceback at level debug."""
    log = log or logger()
    log.error(event, reason=describe(failure), **fields)
    log.debug(event, exc_info=first(failure), **fields)


def first(failure: BaseException) -> BaseException:
    """Return the exception itself, or the first one of a group."""
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    return failure


def describe(failure: BaseException) -> str:
    """Describe a failure and its place on one line: `IndexError: list index out of range (frame.py:120)`."""
    failure = first(failure)
    try:
        text = str(failure)
    except Exception as error:  # noqa: BLE001 - an exception class of a user's script
        text = f"its text cannot be made: {type(error).__name__}"
    frames = extract_tb(failure.__traceback__)
    place = f" ({PurePath(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(failure).__name__}: {text}{place}" if text else f"{type(failure).__name__}{place}"

"""The log: structured, on standard error, as text or JSON.

A line is bounded, and is written by a thread: logging neither waits nor fails, whatever happens to standard error.
Lines that cannot be written are dropped and counted (`dropped`).
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

import structlog

from amqproxy.configuration.config import LogConfig
from amqproxy.process.line_writer import LineWriter

LONGEST_VALUE = 4096
"""Longest value in a line, in characters; the rest is cut off. A traceback may be four times as long."""

LINGER = 1.0
"""Time limit for writing the last lines when the program ends, in seconds."""

_writer: LineWriter | None = None


def start(log: LogConfig) -> None:
    """Start writing the log as configured."""
    global _writer
    stop()
    stream = sys.stderr
    renderer: structlog.typing.Processor
    if log.format == "json":
        renderer = structlog.processors.JSONRenderer()
    else:
        renderer = structlog.dev.ConsoleRenderer(
            colors=is_coloured(stream), pad_event_to=20, exception_formatter=structlog.dev.plain_traceback
        )
    processors: list[structlog.typing.Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _on_one_line,
        renderer,
    ]
    writer = _writer = LineWriter(stream, lambda count: _rendered(processors, "log lines dropped", count=count))
    lines = _Lines(writer)  # made once, since making it could fail in a caller that logs
    structlog.configure(
        processors=processors,
        wrapper_class=_unfailing(logging.getLevelName(log.level.upper())),
        logger_factory=lambda *_: lines,
        cache_logger_on_first_use=False,
    )


def flush(timeout: float = LINGER) -> bool:
    """Wait at most `timeout` seconds until all log lines are written; return `False` if they are not."""
    return _writer is None or _writer.flush(timeout)


def stop(timeout: float = LINGER) -> None:
    """Like `flush`, at the end: later lines are dropped."""
    if _writer is not None:
        _writer.close(timeout)


@contextmanager
def started(log: LogConfig) -> Iterator[None]:
    """Write the log as configured, within the block.

    Errors that Python itself would write to standard error are logged too: a failure in a finalizer or a thread must
    not make the program wait for the reader of standard error.
    """
    hooks = sys.unraisablehook, threading.excepthook
    start(log)
    sys.unraisablehook, threading.excepthook = _log_unraisable, _log_of_thread
    try:
        yield
    finally:
        sys.unraisablehook, threading.excepthook = hooks
        stop()


def _log_unraisable(failure: sys.UnraisableHookArgs) -> None:
    kind = failure.exc_type.__name__
    logger().error("exception ignored", reason=f"{kind}: {failure.exc_value}", place=repr(failure.object))


def _log_of_thread(failure: threading.ExceptHookArgs) -> None:
    kind, thread = failure.exc_type.__name__, failure.thread
    logger().error("thread failed", reason=f"{kind}: {failure.exc_value}", thread=thread.name if thread else None)


def dropped() -> int:
    """Return the number of lines that standard error did not accept."""
    return 0 if _writer is None else _writer.dropped


def is_coloured(stream: TextIO | None) -> bool:
    """Whether output to `stream` has colours: for terminals, unless NO_COLOR, FORCE_COLOR or TERM override it."""
    if stream is None or os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return os.environ.get("TERM") != "dumb" and stream.isatty()


def logger() -> Any:
    """Return the logger: structlog if the program has configured it, else the standard library's logger "amqproxy".

    So a program that embeds amqproxy sees warnings, and nothing on standard output. Call it anew for every line.
    """
    return structlog.get_logger() if structlog.is_configured() else _of_a_library()


class _Lines:
    """Receiver of rendered lines from structlog, by the names of its levels."""

    def __init__(self, writer: LineWriter) -> None:
        self.msg = writer.write

    def __getattr__(self, level: str) -> Any:
        return self.msg


def _unfailing(level: int) -> type[structlog.typing.FilteringBoundLogger]:
    """Return a logger class from this level on, which logs an event without its values if they cannot be rendered."""
    filtering: Any = structlog.make_filtering_bound_logger(level)

    class Unfailing(filtering):  # type: ignore[misc]
        def _proxy_to_logger(self, method_name: str, event: str | None = None, *arguments: Any, **fields: Any) -> Any:
            try:
                return super()._proxy_to_logger(method_name, event, *arguments, **fields)
            except Exception as error:  # noqa: BLE001 - a value whose text cannot be made, a copy that cannot be kept
                with suppress(Exception):
                    text = f"{event} [incomplete: {type(error).__name__}]"
                    super()._proxy_to_logger(method_name, _printable(text))

    return Unfailing


def _rendered(processors: list[structlog.typing.Processor], text: str, **fields: Any) -> str:
    """Return a line that goes only to this log."""
    event: Any = {"event": text, **fields}
    for each in processors:
        event = each(None, "warning", event)
    return str(event)


def _of_a_library() -> Any:
    return structlog.wrap_logger(
        logging.getLogger("amqproxy"),
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.processors.format_exc_info,
            _on_one_line,
            structlog.dev.ConsoleRenderer(
                colors=False, pad_event_to=0, exception_formatter=structlog.dev.plain_traceback
            ),
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
    )


def _on_one_line(
    logger: structlog.typing.WrappedLogger, method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Escape control characters and shorten long values, since some texts come from peers; omit those of `None`."""
    return {name: _bounded(name, value) for name, value in event.items() if value is not None}


def _bounded(name: str, value: Any) -> Any:
    if isinstance(value, (bool, int, float)):
        return value
    if name == "exception" and isinstance(value, str):
        lines = value[-4 * LONGEST_VALUE :].split("\n")
        return "\n".join([_printable(line) for line in lines])
    text = value if isinstance(value, str) else repr(value)
    if len(text) > LONGEST_VALUE:
        return f"{_printable(text[:LONGEST_VALUE])}… [{len(text) - LONGEST_VALUE} more]"
    return _printable(text) if isinstance(value, str) else value


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join([each if each.isprintable() else ascii(each)[1:-1] for each in text])

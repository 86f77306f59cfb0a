"""The log: structured, on standard error, for a person or in JSON."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog

from amqproxy.config import Log


def start(log: Log) -> None:
    """Write the log as the config has it, from here on."""
    renderer: structlog.typing.Processor
    if log.format == "json":
        renderer = structlog.processors.JSONRenderer()
    else:
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=20)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _without_nothing,
            _on_one_line,
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(log.level.upper())),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )


def logger() -> Any:
    """Where to log: to structlog if the program has set it up, and else to the standard library's logger "amqproxy".

    So that who embeds us sees warnings, and nothing on standard output. Ask anew for every line.
    """
    return structlog.get_logger() if structlog.is_configured() else _of_a_library()


def _of_a_library() -> Any:
    return structlog.wrap_logger(
        logging.getLogger("amqproxy"),
        processors=[
            structlog.stdlib.filter_by_level,
            _without_nothing,
            _on_one_line,
            structlog.processors.format_exc_info,
            structlog.dev.ConsoleRenderer(colors=False, pad_event_to=0),
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
    )


def _without_nothing(
    logger: structlog.typing.WrappedLogger, method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Leave out the fields that say None."""
    return {name: value for name, value in event.items() if value is not None}


def _on_one_line(
    logger: structlog.typing.WrappedLogger, method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Show control characters instead of obeying them: some texts are the peers' own."""
    return {name: _printable(value) if isinstance(value, str) else value for name, value in event.items()}


def _printable(text: str) -> str:
    return "".join([each if each.isprintable() else ascii(each)[1:-1] for each in text])

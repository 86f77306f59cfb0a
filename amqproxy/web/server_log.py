"""Warnings and errors of uvicorn and asyncio in our log, limited in number, since any client may cause them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from amqproxy.process.log import logger

MOST_LINES = 10
"""Maximum number of lines in each span of `SPAN_SECONDS`; the next line reports how many were left out."""

SPAN_SECONDS = 10.0

NAMES = ("uvicorn.error", "asyncio", "websockets.server")


class ServerLog(logging.Handler):
    """Handler that writes the standard library's warnings and errors to our log; `server` names the server there."""

    def __init__(self, server: str, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logging.WARNING)
        self._event = f"{server} server"
        self._clock = clock
        self._until = 0.0
        self._lines = 0
        self._left_out = 0

    def emit(self, record: logging.LogRecord) -> None:
        now = self._clock()
        if now >= self._until:
            self._until, self._lines = now + SPAN_SECONDS, 0
        if self._lines >= MOST_LINES:
            self._left_out += 1
            return
        self._lines += 1
        left_out, self._left_out = self._left_out, 0
        reason = record.getMessage().strip().partition("\n")[0]
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            reason = f"{reason}: {type(error).__name__}: {error}"
        fields = {"left_out": left_out} if left_out else {}
        write = logger().error if record.levelno >= logging.ERROR else logger().warning
        write(self._event, reason=reason, **fields)


def take_over(server: str) -> None:
    """Redirect these loggers to our log alone, as messages of this server."""
    handler = ServerLog(server)
    for name in NAMES:
        theirs = logging.getLogger(name)
        theirs.handlers = [handler]
        theirs.propagate = False
        theirs.setLevel(logging.WARNING)

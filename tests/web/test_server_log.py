"""What the server's libraries complain of, in our log."""

from __future__ import annotations

import logging

import pytest
from structlog.testing import capture_logs

from amqproxy.web.server_log import MOST_LINES, SPAN_SECONDS, ServerLog

pytestmark = pytest.mark.once


def test_any_number_of_complaints_makes_few_lines() -> None:
    now = 0.0
    log = ServerLog("dashboard", lambda: now)
    with capture_logs() as lines:
        for _ in range(1000):
            log.emit(logging.LogRecord("x", logging.WARNING, "", 0, "Invalid HTTP\nrequest %s", ("!",), None))
        now = SPAN_SECONDS
        log.emit(logging.LogRecord("x", logging.ERROR, "", 0, "It", (), (ValueError, ValueError("hurts"), None)))
    assert len(lines) == MOST_LINES + 1
    assert lines[0] == {"event": "dashboard server", "reason": "Invalid HTTP", "log_level": "warning"}
    assert (lines[-1]["reason"], lines[-1]["left_out"]) == ("It: ValueError: hurts", 1000 - MOST_LINES)

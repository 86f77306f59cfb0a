"""Servers that do not speak AMQP, or another version of it."""

from __future__ import annotations

import re

from amqproxy.amqp091.transitions import SERVER
from amqproxy.taps.findings.detector import Detector, on
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.events import HistoryLost

_SPEAKS = re.compile(r"the server (?:speaks|does not speak) .*", re.DOTALL)
"""Finds the text of `foreign_answer` in `amqproxy.amqp091.protocol_header` within the reason of lost history."""


class ForeignServer(Detector):
    """The server's first bytes are of another protocol."""

    kind = "foreign-server"
    severity = Severity.ERROR
    why = "The client was sent to a port that is not AMQP's, or is AMQP's over TLS, and cannot work."
    remedy = "Correct the host and the port: 5672 is usual for AMQP, 5671 for AMQP over TLS, 15672 is RabbitMQ's HTTP."

    _is_found = False

    @on(HistoryLost)
    def _on_lost(self, event: HistoryLost) -> str | None:
        found = _SPEAKS.search(event.reason) if event.sender is SERVER and not self._is_found else None
        if found is None:
            return None
        self._is_found = True  # a recording of the proxy has both the header and the proxy's text about it
        return found[0].removesuffix(" at byte 0")

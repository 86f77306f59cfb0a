"""OAuth 2 tokens that were not renewed on an open connection, or not accepted."""

from __future__ import annotations

import re

from amqproxy.amqp091.transitions import SERVER
from amqproxy.taps.findings.detector import Detector, on
from amqproxy.taps.findings.ends import refusal_text
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.events import ConnectionClosed

_EXPIRED = re.compile(r"credential expired|token has expired", re.IGNORECASE)
"""Finds the texts of RabbitMQ 4.3 and of its rabbitmq_auth_backend_oauth2."""


class ExpiredToken(Detector):
    """The broker has closed a connection since its token has expired, or since it refuses the token's successor."""

    kind = "token-renewal-fails"
    severity = Severity.ERROR
    why = "A connection lasts as long as its token: without a successor in time, its consumers end at once."
    remedy = (
        "Have the client send a new token by connection.update-secret before the last one expires. If the proxy logs "
        "in by token, its log says `token not renewed`, with the reason."
    )

    @on(ConnectionClosed)
    def _on_closed(self, event: ConnectionClosed) -> str | None:
        return refusal_text(event) if is_expired_token(event) else None


def is_expired_token(event: ConnectionClosed) -> bool:
    """Whether the broker ended an open connection because of its token."""
    if event.by is not SERVER or event.is_open is False:
        return False
    return event.method == "connection.update-secret" or _EXPIRED.search(event.text) is not None

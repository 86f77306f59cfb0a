"""Connections that the broker closed because of the client's frames."""

from __future__ import annotations

from amqproxy.amqp091.errors import ChannelError, ConnectionForced
from amqproxy.amqp091.transitions import SERVER
from amqproxy.taps.findings.detector import Detector, on
from amqproxy.taps.findings.ends import refusal_text
from amqproxy.taps.findings.expired_tokens import is_expired_token
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.findings.interleaved_content import is_interleaved
from amqproxy.taps.findings.logins import is_refused_login
from amqproxy.taps.findings.missing_close_ok import unanswered_closes
from amqproxy.taps.findings.oversized_frames import is_oversized
from amqproxy.taps.findings.tuning import is_refused_tuning
from amqproxy.taps.trace.events import ConnectionClosed

_NOT_THE_CLIENTS = frozenset((0, 200, ConnectionForced.code))
"""Reply codes of closes that the client has not caused."""


class FrameAfterClose(Detector):
    """The client has used a channel that is closed, or not open yet."""

    kind = "frame-after-close"
    severity = Severity.ERROR
    why = "The broker closes the whole connection: its other channels end too."
    remedy = "Send nothing on a channel once it is closed; where threads share a channel, give each its own."

    @on(ConnectionClosed)
    def _on_closed(self, event: ConnectionClosed) -> str | None:
        if event.by is not SERVER or event.code != ChannelError.code:
            return None
        if unanswered_closes(event, self.observed.trace):
            return None  # MissingCloseOk reports this
        return refusal_text(event)


class FailedConnection(Detector):
    """The broker has closed a connection with an error."""

    kind = "connection-error"
    severity = Severity.ERROR
    why = "All of the connection's channels are closed: consumers end, unacknowledged deliveries are requeued."
    remedy = "Correct what the text names; a protocol error comes from the client library, or from a rule."

    @on(ConnectionClosed)
    def _on_closed(self, event: ConnectionClosed) -> str | None:
        if event.by is not SERVER or event.code in _NOT_THE_CLIENTS or event.code == ChannelError.code:
            return None
        if is_refused_login(event) or is_interleaved(event) or is_oversized(event) or is_expired_token(event):
            return None  # other detectors report these
        if is_refused_tuning(event, self.observed.trace.facts):
            return None
        return refusal_text(event)

"""Frames of a client that are larger than agreed."""

from __future__ import annotations

import re

from amqproxy.amqp091.errors import FrameError
from amqproxy.amqp091.transitions import SERVER
from amqproxy.taps.findings.detector import Detector, on
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.events import ConnectionClosed

_TOO_LARGE = re.compile(r"type (\d).*\{frame_too_large,(\d+),(\d+)\}|a frame of (\d+) bytes, where (\d+) is the most")
"""RabbitMQ's text, with Erlang's term in it, and the proxy's."""

_NAMES = {"1": "method", "2": "content header", "3": "body"}


class OversizedFrame(Detector):
    """The client has sent a frame that is larger than frame_max."""

    kind = "oversized-frame"
    severity = Severity.ERROR
    why = "The broker closes the connection with 501: only bodies are cut into frames, headers have to fit into one."
    remedy = (
        "Send less in headers (move data into the body; x-death and tracing add to them), or agree on a larger "
        "frame_max: 131072 is RabbitMQ's own."
    )

    @on(ConnectionClosed)
    def _on_closed(self, event: ConnectionClosed) -> str | None:
        found = _TOO_LARGE.search(event.text) if is_oversized(event) else None
        if found is None:
            return None
        kind, size, most = _NAMES.get(found[1] or "", ""), found[2] or found[4], found[3] or found[5]
        return f"a {kind} frame of {size} bytes, where {most} is the most" if kind else found[0]


def is_oversized(event: ConnectionClosed) -> bool:
    """Whether the broker closed the connection for a frame that is larger than agreed."""
    is_frame_error = event.by is SERVER and event.code == FrameError.code
    return is_frame_error and _TOO_LARGE.search(event.text) is not None

"""Limits that a client and a broker cannot agree on."""

from __future__ import annotations

import re

from amqproxy.amqp091.transitions import SERVER
from amqproxy.taps.findings.detector import Detector, on
from amqproxy.taps.findings.ends import ended_by
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.events import ConnectionClosed
from amqproxy.taps.trace.handshake_facts import HandshakeFacts

_TUNING = frozenset({"connection.tune", "connection.tune-ok", "connection.open"})
"""Handshake steps after which the end of a connection is about limits: a refused virtual host has its own close.

RabbitMQ 3.10 answers limits that it refuses with RST alone. Some clients send connection.open with tune-ok.
"""

_REFUSED_BY_PROXY = re.compile(r"the client broke the protocol: (530 .*)")
"""Reason given by the proxy, which refuses the same limits as RabbitMQ."""


class RefusedTuning(Detector):
    """The client and the broker have not agreed on channel_max, frame_max and the heartbeat interval."""

    kind = "tuning-refused"
    severity = Severity.ERROR
    why = "A client may lower the limits that connection.tune offers, and not raise them: 0 is no limit, which is more."
    remedy = (
        "Have the client answer with the broker's channel_max and frame_max, or with less, and with a frame_max ≥ 4096."
    )

    @on(ConnectionClosed)
    def _on_closed(self, event: ConnectionClosed) -> str | None:
        facts = self.observed.trace.facts
        if not is_refused_tuning(event, facts):
            return None
        refused = _REFUSED_BY_PROXY.match(event.text)
        if refused is not None:
            return refused[1]
        limits = f"channel_max={facts.channel_max}, frame_max={facts.frame_max}, heartbeat={facts.heartbeat}"
        asked = "" if facts.channel_max is None else f"; the client asked for {limits}"
        if event.by is SERVER:
            return f"{event.code} {event.text}{asked}"
        return f"the {ended_by(event)} ended the connection after connection.tune without connection.close{asked}"


def is_refused_tuning(event: ConnectionClosed, facts: HandshakeFacts) -> bool:
    """Whether the connection ended because its limits were refused."""
    if event.by is not None:
        return event.by is SERVER and event.is_open is False and event.method == "connection.tune-ok"
    if _REFUSED_BY_PROXY.match(event.text):
        return facts.step == "connection.tune"
    return ended_by(event) is not None and facts.step in _TUNING

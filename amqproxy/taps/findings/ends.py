"""Ends of connections without a close, and the text of closes with an error."""

from __future__ import annotations

from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.taps.findings.detector import ObservedTrace
from amqproxy.taps.trace.events import ChannelClosed, ConnectionClosed

MISSED_INTERVALS = 2
"""Heartbeat intervals without a frame after which a peer may end the connection. Section 4.2.7."""

MISSED = "missed its heartbeats"
"""Text after the silent peer's name in the proxy's reason, when it ends the connection in place of the other peer."""

LEEWAY = 0.95
"""Fraction of `MISSED_INTERVALS` for which a peer must have been silent: clocks and timers differ."""


def refusal_text(event: ConnectionClosed | ChannelClosed) -> str:
    """Return the reply code and text of a close with an error, its cause, and whether the proxy sent it."""
    cause = f" after {event.method}" if event.method else ""
    return f"{event.code} {event.text}{cause}{', by the proxy' if event.is_by_proxy else ''}"


def ended_by(event: ConnectionClosed) -> Peer | None:
    """Return the peer that ended the connection without connection.close; `None` if neither did, or if unknown."""
    if event.by is not None:
        return None
    named = next((peer for peer in (CLIENT, SERVER) if event.text.startswith(f"{peer} ")), None)
    return named.other if named is not None and MISSED in event.text else named


def is_reset(event: ConnectionClosed) -> bool:
    """Whether a peer's RST ended the connection."""
    return ended_by(event) is not None and "reset" in event.text


def silent_peer(event: ConnectionClosed, trace: ObservedTrace) -> Peer | None:
    """Return the peer whose missed heartbeats made the other end the connection; `None` if its silence was shorter."""
    ending, interval = ended_by(event), trace.facts.heartbeat
    if ending is None or not interval or not event.is_open:
        return None
    if MISSED in event.text:
        return ending.other
    silence_ns = trace.activity.silence_ns(ending.other, event.ts_ns)
    return ending.other if silence_ns >= LEEWAY * MISSED_INTERVALS * interval * 1e9 else None

"""The trace of each protocol."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp010.frame import Frame as Amqp010Frame
from amqproxy.taps.trace.amqp010.connection_trace import Amqp010Trace
from amqproxy.taps.trace.amqp091.connection_trace import Trace
from amqproxy.taps.trace.connection_trace import ConnectionTrace

UNKNOWN = Trace
"""Trace of a connection whose protocol no frame has shown."""


TRACES: dict[str, type[ConnectionTrace[Any, Any]]] = {each.PROTOCOL: each for each in (Trace, Amqp010Trace)}
"""Trace of each protocol, by its name."""


def trace_of(frame: Any) -> type[ConnectionTrace[Any, Any]]:
    """Return the kind of trace that takes frames of this protocol."""
    return Amqp010Trace if isinstance(frame, Amqp010Frame) else Trace

"""Trace that a message belongs to, from the headers that its publisher wrote: W3C Trace Context.

https://www.w3.org/TR/trace-context/ and https://w3c.github.io/trace-context-amqp/
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

MAX_TRACESTATE = 512
"""Limit in characters on a `tracestate`; a longer one is left out, as section 3.3.1.5 allows."""

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)
_NO_TRACE, _NO_SPAN = "0" * 32, "0" * 16


class TraceContext(NamedTuple):
    """Trace, and the span in it that the message comes from, in hexadecimal digits as in `traceparent`."""

    trace_id: str
    span_id: str
    is_sampled: bool
    tracestate: str = ""


def trace_context(headers: Mapping[str, Any] | None) -> TraceContext | None:
    """Return the trace context in a message's headers; `None` if there is none, or it is malformed."""
    if not headers:
        return None
    found = _TRACEPARENT.fullmatch(_text(headers.get("traceparent")).strip(" \t"))
    if found is None:
        return None
    version, trace_id, span_id, flags, rest = found.groups()
    if version == "ff" or (version == "00" and rest) or trace_id == _NO_TRACE or span_id == _NO_SPAN:
        return None
    tracestate = _text(headers.get("tracestate"))
    if len(tracestate) > MAX_TRACESTATE or not tracestate.isascii():
        tracestate = ""
    return TraceContext(trace_id, span_id, bool(int(flags, 16) & 1), tracestate)


def _text(value: object) -> str:
    """Return a header as text: clients write it as a string, some as bytes."""
    if isinstance(value, bytes):
        return value.decode("ascii", "replace")
    return value if isinstance(value, str) else ""

"""W3C Trace Context in message headers: starts a trace for messages that have none.

https://www.w3.org/TR/trace-context/
"""

from __future__ import annotations

import re
from collections.abc import Callable

from amqproxy.amqp091.wire import Field, Table

PARENT, STATE = "traceparent", "tracestate"

_VALID = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")
_ONLY_FOUR_PARTS = "00-"


def begun(headers: Table, random: Callable[[], float]) -> Table:
    """Return the headers with a trace: their own if it is valid, else a new, sampled one.

    A tracestate without a valid traceparent is removed, as section 3.3 specifies.
    """
    if is_valid(headers.get(PARENT)):
        return headers
    trace, span = _hexadecimal(16, random), _hexadecimal(8, random)
    kept = [field for field in headers.fields if field.name not in (PARENT, STATE)]
    return Table([*kept, Field(PARENT, "S", f"00-{trace}-{span}-01"), Field(STATE, "S", f"amqproxy={span}")])


def is_valid(parent: object) -> bool:
    """Whether `parent` is a valid traceparent."""
    if isinstance(parent, bytes):
        parent = parent.decode("ascii", "replace")
    if not isinstance(parent, str):
        return False
    found = _VALID.fullmatch(parent)
    return found is not None and not (parent.startswith(_ONLY_FOUR_PARTS) and found[1])


def _hexadecimal(size: int, random: Callable[[], float]) -> str:
    """Return random bytes in hexadecimal, not all zero, since zero means no trace."""
    drawn = bytes(int(random() * 256) for _ in range(size))
    return (drawn if any(drawn) else b"\x01" * size).hex()

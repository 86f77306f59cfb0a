"""Changes of a consumer's credit, in protocols where a consumer is sent nothing without credit."""

from __future__ import annotations

import msgspec


class CreditChange(msgspec.Struct, frozen=True, kw_only=True):
    """A request about the credit of a consumer, or the request that begins the consumer.

    With `holds_of`, a consumer of that queue begins which has to settle what it is sent. `is_window` is whether
    settlements give credit back, if the request determines that. `given` are the units of credit that are given in
    addition, of the `unit` named; `INFINITE` lifts the limit. `ends` if all credit is withdrawn.
    """

    consumer_tag: str
    holds_of: str | None = None
    is_window: bool | None = None
    unit: str = ""
    given: int = 0
    ends: bool = False


INFINITE = 0xFFFF_FFFF
"""Credit that is never used up."""

MESSAGES, BYTES = "messages", "bytes"
UNITS = frozenset({MESSAGES, BYTES})
"""The units in which credit is given."""

"""What an expert would point out about a connection."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from amqproxy.taps.record import encoded


class Severity(StrEnum):
    """How bad a finding is, the least first."""

    INFO = "info"
    """Worth knowing."""
    WARNING = "warning"
    """Slow, unsafe, or wrong one day."""
    ERROR = "error"
    """Wrong now: something failed, or messages were lost or repeated."""

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


class Finding(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One thing that a client or a broker does and that is worth a look.

    `kind` is one of those in docs/findings.md. `text` says what was seen, `why` why that matters, `remedy` what to do.
    `ts_ns` is when it was seen, in nanoseconds since 1970; `stream`, `connection` and `channel` are as in records.
    `count` is how often it has been seen on the connection: it is reported the first time, the tenth, the hundredth ….
    """

    ts_ns: int
    stream: int
    connection: str
    channel: int | None = None
    kind: str
    severity: Severity
    text: str
    count: int = 1
    why: str
    remedy: str

    def to_json(self) -> bytes:
        """One line of JSON, without the line's end."""
        return encoded(self)

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


class RecordNumber(msgspec.Struct, frozen=True, omit_defaults=True, rename={"sender": "from"}):
    """Which record shows something: the nth frame of `sender` ("client" or "server") on its connection.

    Counted are the frames that were seen, from 1, without heartbeats. `stream` is the connection's number, where it is
    another one than the finding's.
    """

    sender: str
    number: int
    stream: int | None = None


class Finding(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One thing that a client or a broker does and that is worth a look.

    `kind` is one of those in docs/findings.md. `text` says what was seen, `why` why that matters, `remedy` what to do.
    `ts_ns` is when it was seen, in nanoseconds since 1970; `stream`, `connection` and `channel` are as in records.
    `count` is how often it has been seen on the connection: it is reported the first time, the tenth, the hundredth ….
    `evidence` are the records that show it, the last one last; none where nothing that passed does.
    """

    ts_ns: int
    stream: int
    connection: str
    channel: int | None = None
    kind: str
    severity: Severity
    text: str
    count: int = 1
    evidence: tuple[RecordNumber, ...] = ()
    why: str
    remedy: str

    def to_json(self) -> bytes:
        """One line of JSON, without the line's end."""
        return encoded(self)


class FindingCounts:
    """How often each kind has been found."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def reported(self, kind: str) -> int:
        """Count a finding: how many there are now, if it is to be reported (the first, the tenth ...), or 0."""
        count = found = self._counts[kind] = self._counts.get(kind, 0) + 1
        while count % 10 == 0:
            count //= 10
        return found if count == 1 else 0

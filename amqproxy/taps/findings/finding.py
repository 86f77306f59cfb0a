"""Finding: a fault or a risk that an expert would point out about a connection."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from amqproxy.taps.record import encoded


class Severity(StrEnum):
    """Severity of a finding, the least first."""

    INFO = "info"
    """Worth knowing."""
    WARNING = "warning"
    """Slow, unsafe, or wrong one day."""
    ERROR = "error"
    """Wrong now: something failed, or messages were lost or repeated."""

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


NO_CONNECTION = -1
"""Stream of a finding that is not about a connection."""


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
    `evidence` are the records that show it, the last one last; none where nothing that passed does. A finding about
    the proxy itself has the stream -1, and the upstream, the member or the file that it is about as its `connection`.
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
        """Return one line of JSON, without a newline."""
        return encoded(self)


def is_reported(count: int) -> bool:
    """Return whether the finding with this count is reported: the first, the tenth, the hundredth … are."""
    while count % 10 == 0:
        count //= 10
    return count == 1

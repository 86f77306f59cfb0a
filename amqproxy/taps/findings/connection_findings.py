"""Findings of one connection as its trace proceeds, by itself and together with all others of the run."""

from __future__ import annotations

from collections.abc import Sequence

from amqproxy.amqp091.transitions import Peer
from amqproxy.taps.findings.detector import ObservedConnection, ObservedTrace
from amqproxy.taps.findings.finding import Finding, RecordNumber
from amqproxy.taps.findings.inspector import Inspector
from amqproxy.taps.findings.process_detector import ConnectionPlace
from amqproxy.taps.findings.process_inspector import ProcessInspector
from amqproxy.taps.trace.events import TraceEvent


class ConnectionFindings:
    """Listener to `trace`, of the connection numbered `stream` and named `connection`, whose client's end comes first.

    `is_tls` is whether it is encrypted, if that is known; `process_inspector` is shared by the connections of a run;
    `is_counting` is as in `Inspector`.
    """

    def __init__(
        self,
        trace: ObservedTrace,
        stream: int,
        connection: str,
        *,
        is_tls: bool | None,
        process_inspector: ProcessInspector,
        is_counting: bool = False,
    ) -> None:
        address = connection.partition("-")[0].rpartition(":")[0].strip("[]")
        self._place = ConnectionPlace(stream, connection, address)
        observed = self._observed = ObservedConnection(trace, is_tls, address)
        self._inspector = Inspector(stream, connection, observed, is_counting=is_counting)
        self._process_inspector = process_inspector
        self._found: list[Finding] = []
        trace.listen(self._inspect)

    def take(self) -> list[Finding]:
        """Remove and return the findings made since the last call."""
        found, self._found = self._found, []
        return found

    def look(self, now_ns: int, stalled_ns: int = 0) -> list[Finding]:
        """Return findings that are due by time alone; `stalled_ns` is for how long the broker has read nothing."""
        self._observed.trace.activity.stalled_ns = stalled_ns
        return self._inspector.look(now_ns)

    def _inspect(self, events: Sequence[TraceEvent], sender: Peer | None, number: int) -> None:
        record = among_all = None
        if sender is not None:
            record = RecordNumber(str(sender), number)
            among_all = RecordNumber(record.sender, number, self._place.stream)
        self._found += self._inspector.inspect(events, record)
        self._found += self._process_inspector.inspect(self._place, events, among_all)

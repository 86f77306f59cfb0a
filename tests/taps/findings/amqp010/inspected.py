"""A connection of AMQP 0-10 under inspection: commands go in, what is found comes out."""

from __future__ import annotations

from collections.abc import Sequence

from amqproxy.amqp010.commands import (
    MessageFlow,
)
from amqproxy.peer import Peer
from amqproxy.taps.findings.detector import ObservedConnection
from amqproxy.taps.findings.finding import Finding
from amqproxy.taps.findings.inspector import Inspector
from amqproxy.taps.trace.events import TraceEvent
from tests.taps.trace.amqp010.traced import TracedAmqp010


class InspectedAmqp010(TracedAmqp010):
    """A connection whose session on channel 1 is attached; `findings` are all that there were since."""

    def __init__(self, *, joined: bool = False) -> None:
        super().__init__(*(() if joined else (1,)), joined=joined)
        self.findings: list[Finding] = []
        self._inspector = Inspector(7, "a:1-b:2", ObservedConnection(self.trace, False, "10.0.0.1"))
        self.trace.listen(self._inspect)

    def _inspect(self, events: Sequence[TraceEvent], sender: Peer | None, number: int) -> None:
        self.findings += self._inspector.inspect(events)

    @property
    def kinds(self) -> list[str]:
        return [each.kind for each in self.findings]

    def look(self) -> list[str]:
        """The texts of what the time alone shows."""
        return [each.text for each in self._inspector.look(self.ts_ns)]

    def give_credit(self, messages: int, byte_credit: int) -> None:
        self.client(MessageFlow(destination="d", unit=0, value=messages))
        self.client(MessageFlow(destination="d", unit=1, value=byte_credit))

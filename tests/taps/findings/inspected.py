"""A connection under inspection: methods go in, what is found comes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amqproxy.amqp091.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicQos,
    BasicQosOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionTuneOk,
)
from amqproxy.amqp091.transitions import Peer
from amqproxy.taps.findings.detector import ObservedConnection
from amqproxy.taps.findings.finding import Finding, RecordNumber
from amqproxy.taps.findings.inspector import Inspector
from amqproxy.taps.trace.events import TraceEvent
from tests.taps.trace.traced import Traced


class Inspected(Traced):
    """A connection whose channels are open; `findings` are all that there were since."""

    def __init__(self, *channels: int, is_tls: bool | None = None, address: str = "10.0.0.1", **options: Any) -> None:
        self.findings: list[Finding] = []
        self._inspector: Inspector | None = None
        self._is_tls, self._address = is_tls, address
        super().__init__(*channels, **options)
        self.findings.clear()

    def _feed(self, *given: Any) -> list[TraceEvent]:
        if self._inspector is None:
            observed = ObservedConnection(self.trace, self._is_tls, self._address)
            self._inspector = Inspector(7, f"{self._address}:1-10.0.0.2:5672", observed)
            self.trace.listen(self._inspect)
        return super()._feed(*given)

    def _inspect(self, events: Sequence[TraceEvent], sender: Peer | None, number: int) -> None:
        assert self._inspector is not None
        self.findings += self._inspector.inspect(events, None if sender is None else RecordNumber(sender, number))

    def later(self, seconds: float) -> None:
        self.ts_ns += int(seconds * 1e9)

    def look(self) -> list[str]:
        """The texts of what the time alone shows."""
        assert self._inspector is not None
        found = self._inspector.look(self.ts_ns)
        self.findings += found
        return [each.text for each in found]

    @property
    def counts(self) -> dict[str, int]:
        """How often each kind was found."""
        assert self._inspector is not None
        return self._inspector._counts

    def confirming(self, channel: int = 1) -> None:
        self.client(ConfirmSelect(), channel=channel)
        self.server(ConfirmSelectOk(), channel=channel)

    def consuming(self, queue: str = "q", tag: str = "c", *, no_ack: bool = False, prefetch: int = 10) -> None:
        if prefetch:
            self.client(BasicQos(prefetch_count=prefetch))
            self.server(BasicQosOk())
        self.client(BasicConsume(queue=queue, consumer_tag=tag, no_ack=no_ack))
        self.server(BasicConsumeOk(tag))

    @property
    def kinds(self) -> list[str]:
        """The kinds of what was found, in order."""
        return [each.kind for each in self.findings]


def agreed(heartbeat: int) -> Inspected:
    """A connection that was opened with that heartbeat interval, and channel 1."""
    inspected = Inspected(joined=True)
    inspected.trace.feed_protocol_header(0)
    inspected.client(ConnectionTuneOk(heartbeat=heartbeat), ConnectionOpen("/"), channel=0)
    inspected.server(ConnectionOpenOk(), channel=0)
    inspected.client(ChannelOpen())
    inspected.server(ChannelOpenOk())
    return inspected

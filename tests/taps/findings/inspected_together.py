"""Connections under inspection together: methods go in, what is found across them comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from amqproxy.amqp091.frame import encode_method
from amqproxy.amqp091.methods import (
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionStartOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)
from amqproxy.amqp091.transitions import CLIENT, Peer
from amqproxy.amqp091.wire import Table
from amqproxy.taps.findings.finding import Finding, RecordNumber
from amqproxy.taps.findings.process_detector import ConnectionPlace
from amqproxy.taps.findings.process_inspector import ProcessInspector
from amqproxy.taps.trace.events import TraceEvent
from amqproxy.taps.trace.snapshot import ChannelSnapshot, ConnectionSnapshot, DeclarationSnapshot, HandshakeSnapshot
from tests.taps.trace.traced import Traced


class Together:
    """Connections with one clock; `findings` are all that there were across them."""

    def __init__(self) -> None:
        self.inspector = ProcessInspector()
        self.findings: list[Finding] = []
        self.ts_ns = 0
        self.count = 0

    def connect(
        self,
        *,
        address: str = "10.0.0.1",
        vhost: str = "/",
        joined: bool = False,
        properties: Mapping[str, Any] | None = None,
    ) -> Member:
        """A new connection with channel 1, whose client announces `properties`."""
        self.count += 1
        place = ConnectionPlace(self.count, f"{address}:{self.count}-b:1", address)
        return Member(self, place, vhost, joined=joined, properties=properties)

    def later(self, seconds: float) -> None:
        """Time goes by."""
        self.ts_ns += int(seconds * 1e9)

    def look(self) -> None:
        self.findings += self.inspector.look(self.ts_ns)

    @property
    def kinds(self) -> list[str]:
        """The kinds of what was found, in order."""
        return [each.kind for each in self.findings]


class Member(Traced):
    """One of the connections."""

    def __init__(
        self,
        together: Together,
        place: ConnectionPlace,
        vhost: str,
        *,
        joined: bool,
        properties: Mapping[str, Any] | None = None,
    ) -> None:
        self._properties = properties or {}
        self._together = together
        self._place = place
        self._vhost = vhost
        self._is_heard = False
        channels = () if joined else (1,)
        super().__init__(*channels, joined=joined)

    def _feed(self, sender: Peer, methods: tuple[Method, ...], channel: int, content: Any) -> list[TraceEvent]:
        self._hear()
        self.ts_ns = self._together.ts_ns = max(self.ts_ns, self._together.ts_ns)
        return super()._feed(sender, tuple(map(self._own, methods)), channel, content)

    def _hear(self) -> None:
        if not self._is_heard:
            self._is_heard = True
            self.trace.listen(self._inspect)

    def _own(self, method: Method) -> Method:
        """The method with what this client says of itself."""
        match method:
            case ConnectionOpen():
                return ConnectionOpen(self._vhost)
            case ConnectionStartOk():
                return ConnectionStartOk(client_properties=Table(self._properties))
        return method

    def _inspect(self, events: Sequence[TraceEvent], sender: Peer | None, number: int) -> None:
        record = None if sender is None else RecordNumber(sender, number, self._place.stream)
        self._together.findings += self._together.inspector.inspect(self._place, events, record)

    def declare(self, name: str = "q", *, messages: int = 0, consumers: int = 0, **options: Any) -> None:
        self.client(QueueDeclare(queue=name, **options))
        self.server(QueueDeclareOk(name, messages, consumers))

    def restore(
        self, *channels: ChannelSnapshot, vhost: str | None = "/", declared: Sequence[Method] = (), **by: Any
    ) -> None:
        """Take a snapshot with these channels, and objects that were declared `by` another client, if it is named."""
        self._hear()
        made = tuple(DeclarationSnapshot(method=encode_method(0, each)[7:-1], ts_ns=0, **by) for each in declared)
        handshake = HandshakeSnapshot(virtual_host=vhost)
        ts_ns = self._together.ts_ns
        self.trace.restore(
            ConnectionSnapshot(
                ts_ns=ts_ns, protocol=self.trace.PROTOCOL, handshake=handshake, channels=channels, declarations=made
            )
        )

    def lose(self) -> None:
        """Lose bytes of the client."""
        self._hear()
        self.trace.gap(CLIENT, self._together.ts_ns, "bytes are missing")

    def ask(self, request: Method, reply: Method) -> None:
        self.client(request)
        self.server(reply)

    def close(self) -> None:
        self.client(ConnectionClose(200), channel=0)
        self.server(ConnectionCloseOk(), channel=0)
        self.trace.end(self.ts_ns, "over")

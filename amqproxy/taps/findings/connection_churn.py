"""Connections that are opened for one message each."""

from __future__ import annotations

from collections import deque

import msgspec

from amqproxy.amqp091.methods import BasicGetEmpty
from amqproxy.taps.findings.detector import on
from amqproxy.taps.findings.finding import RecordNumber, Severity, is_reported
from amqproxy.taps.findings.process_detector import ConnectionPlace, ProcessDetector, Sighting
from amqproxy.taps.trace.events import (
    ConnectionClosed,
    ConnectionOpened,
    MessageDelivered,
    MessagePublished,
    RequestAnswered,
)

IN_A_ROW = 10
"""Number of a client's successive connections with one message each that counts as a habit."""

WITHIN_NS = 60_000_000_000
"""Time in nanoseconds within which they must come: a program that runs now and then, and sends a message, is fine."""

MAX_CONNECTIONS = 20_000
"""Limit on the open connections whose messages are counted."""

MAX_CLIENTS = 1000
"""Limit on the clients whose connections are remembered, the newest."""

ClientKey = tuple[str, str, str, str]
"""Address, user, virtual host and product: connections with the same ones count as the same client's."""


class OpenConnection:
    """Count of the messages on an open connection, and the record of the last."""

    __slots__ = ("client", "messages", "record")

    def __init__(self, client: ClientKey) -> None:
        self.client = client
        self.messages = 0
        self.record: RecordNumber | None = None


class ClientRow(msgspec.Struct):
    """Last successive connections of a client with one message each: their end times, and the messages' records."""

    row: deque[tuple[int, RecordNumber | None]] = msgspec.field(default_factory=lambda: deque(maxlen=IN_A_ROW))
    count: int = 0


class ConnectionPerMessage(ProcessDetector):
    """Connections are opened, used for one message, and closed again."""

    kind = "connection-per-message"
    severity = Severity.WARNING
    why = "Each message costs seven round trips more, handshakes and a login included; the broker logs each connection."
    remedy = (
        "Keep a connection open for as long as the program runs; in a web server, one for each process. "
        "Where programs cannot, let them share upstream connections: [upstream.pool]."
    )

    def __init__(self) -> None:
        self._open: dict[int, OpenConnection] = {}
        self._clients: dict[ClientKey, ClientRow] = {}

    @on(ConnectionOpened)
    def _on_opened(self, connection: ConnectionPlace, event: ConnectionOpened, record: RecordNumber | None) -> None:
        if len(self._open) < MAX_CONNECTIONS:
            product = str((event.client_properties or {}).get("product", ""))
            client = (connection.address, event.user or "", event.virtual_host or "", product)
            self._open[connection.stream] = OpenConnection(client)

    @on(MessagePublished, MessageDelivered)
    def _on_message(
        self, connection: ConnectionPlace, event: MessagePublished | MessageDelivered, record: RecordNumber | None
    ) -> None:
        found = self._open.get(connection.stream)
        if found is not None:
            found.messages += 1
            found.record = record

    @on(RequestAnswered)
    def _on_answered(self, connection: ConnectionPlace, event: RequestAnswered, record: RecordNumber | None) -> None:
        if isinstance(event.reply, BasicGetEmpty):
            found = self._open.get(connection.stream)
            if found is not None:
                found.messages += 1
                found.record = record

    @on(ConnectionClosed)
    def _on_closed(
        self, connection: ConnectionPlace, event: ConnectionClosed, record: RecordNumber | None
    ) -> list[Sighting] | None:
        ended = self._open.pop(connection.stream, None)
        if ended is None or not ended.messages:  # such as a health check of the broker
            return None
        client = self._clients.pop(ended.client, None) or ClientRow()
        if ended.messages > 1:
            return None
        self._clients[ended.client] = client
        if len(self._clients) > MAX_CLIENTS:
            del self._clients[next(iter(self._clients))]
        client.row.append((event.ts_ns, ended.record))
        if len(client.row) < IN_A_ROW or event.ts_ns - client.row[0][0] > WITHIN_NS:
            return None
        evidence = tuple(each for _, each in client.row if each is not None)
        client.row.clear()
        client.count += 1
        if not is_reported(client.count):
            return None
        text = f"{IN_A_ROW} connections in a row were opened for one message each"
        return [Sighting(connection, None, text, evidence, client.count)]

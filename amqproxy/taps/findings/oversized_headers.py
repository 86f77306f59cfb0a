"""Content headers that are larger than the frame size limit that the peers agreed on."""

from __future__ import annotations

from amqproxy.amqp091.frame import OVERHEAD
from amqproxy.amqp091.methods import BasicReturn
from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.taps.findings.detector import Detector, ObservedConnection, on
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.events import ConnectionOpened, MessageDelivered, MessageReturned

_OTHER_PROPERTIES = 20 + 11 * 256 + OVERHEAD
"""Largest size in bytes of a content header's frame without the headers table."""


class HeaderOverFrameMax(Detector):
    """The broker sends a content header in a frame above frame_max: RabbitMQ bounds only the bodies that it sends."""

    kind = "header-over-frame-max"
    severity = Severity.WARNING
    why = "RabbitMQ sends headers in one frame of any size; a client that enforces frame_max fails, and gets it again."
    remedy = "Raise frame_max in the client (131072 is RabbitMQ's own), or move data from headers into the body."

    def __init__(self, observed: ObservedConnection) -> None:
        super().__init__(observed)
        self._frame_max = 0

    @on(ConnectionOpened)
    def _on_opened(self, event: ConnectionOpened) -> None:
        self._frame_max = event.frame_max or 0

    @on(MessageDelivered, MessageReturned)
    def _on_message(self, event: MessageDelivered | MessageReturned) -> str | None:
        properties = event.properties
        if not self._frame_max or not isinstance(properties, Properties) or properties.headers is None:
            return None  # such a header is split into frames
        if len(properties.headers.octets) + _OTHER_PROPERTIES <= self._frame_max:
            return None
        size = len(ContentHeader(event.size, properties).encode()) + OVERHEAD
        if size <= self._frame_max:
            return None
        what = "returned" if isinstance(event.method, BasicReturn) else "delivered"
        source = f"exchange '{event.method.exchange}', routing key '{event.method.routing_key}'"
        return f"a message of {source} is {what}: its content header has {size} bytes, frame_max is {self._frame_max}"

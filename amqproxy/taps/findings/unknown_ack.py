"""Acknowledgements of deliveries that are not open."""

from __future__ import annotations

from amqproxy.taps.findings.detector import Detector, ObservedConnection, on
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.events import ChannelOpened, DeliveriesSettled, HistoryLost, MessageDelivered


class UnknownAck(Detector):
    """A delivery is settled that is not open: settled before, or never made."""

    kind = "unknown-ack"
    severity = Severity.ERROR
    why = "The broker closes the channel (RabbitMQ with 406): all that is open on it is delivered again."
    remedy = "Settle each delivery once, and none of a consumer with no_ack; look for a second ack in error paths."

    def __init__(self, observed: ObservedConnection) -> None:
        super().__init__(observed)
        self._last: dict[int, int] = {}

    @on(ChannelOpened)
    def _on_opened(self, event: ChannelOpened) -> None:
        self._last.pop(event.channel, None)

    @on(HistoryLost)
    def _on_lost(self, event: HistoryLost) -> None:
        self._last.clear()  # after a snapshot, acks may settle deliveries that were not seen

    @on(MessageDelivered)
    def _on_delivered(self, event: MessageDelivered) -> None:
        if event.method.delivery_tag is not None:
            self._last[event.channel] = event.method.delivery_tag

    @on(DeliveriesSettled)
    def _on_settled(self, event: DeliveriesSettled) -> str | None:
        if not event.is_unknown_tag or event.tag is None or _other_channel(self.observed, event) is not None:
            return None
        if event.tag == 0 and not event.command:
            return f"delivery tag 0 is {event.outcome} without multiple: no delivery has that tag"
        if event.tag <= self._last.get(event.channel, -1 if event.command else 0):
            return f"delivery tag {event.tag} is {event.outcome} though it is not open: settled before, or auto-acked"
        channel = self.observed.trace.channels.get(event.channel)
        if channel is None or not channel.knows_start:
            return f"delivery tag {event.tag} is {event.outcome} though it is not open"
        return f"delivery tag {event.tag} is {event.outcome}, and there was no such delivery on the channel"


class AckOnWrongChannel(Detector):
    """A delivery is settled on another channel than the one that it came on."""

    kind = "ack-on-wrong-channel"
    severity = Severity.ERROR
    why = "Delivery tags belong to their channel: the broker closes the other one, and the delivery stays open."
    remedy = "Settle deliveries on the channel that they came on; a channel is for one thread only."

    @on(DeliveriesSettled)
    def _on_settled(self, event: DeliveriesSettled) -> str | None:
        other = _other_channel(self.observed, event) if event.is_unknown_tag else None
        if other is None:
            return None
        return f"delivery tag {event.tag} is {event.outcome} on channel {event.channel}; it is open on channel {other}"


def _other_channel(observed: ObservedConnection, event: DeliveriesSettled) -> int | None:
    """Return the only other channel on which the tag is open; `None` if there is none, or several."""
    if event.command:
        return None  # command ids begin at the same value on every session
    tag = event.tag or 0
    found = [number for number, channel in observed.trace.channels.items() if channel.is_unacked(tag)]
    return found[0] if len(found) == 1 else None

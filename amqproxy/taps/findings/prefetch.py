"""Consumers to which a broker sends the whole queue."""

from __future__ import annotations

from amqproxy.amqp091.methods import BasicCancel, BasicConsume, BasicQos
from amqproxy.taps.credit import INFINITE, UNITS, CreditChange
from amqproxy.taps.dialects import credit_change
from amqproxy.taps.findings.detector import Detector, ObservedConnection, on
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.equivalents import equivalent
from amqproxy.taps.trace.events import ChannelClosed, RequestAnswered, RequestSent

MAX_SUBSCRIPTIONS = 1000
"""Limit on the subscriptions of one connection whose credit is remembered."""


class UnlimitedPrefetch(Detector):
    """A consumer acknowledges what it gets, and nothing limits how much it gets at once.

    Where nothing comes without credit, it is one whose credit of messages and bytes is infinite.
    """

    kind = "unlimited-prefetch"
    severity = Severity.WARNING
    why = "The whole queue moves into the first consumer's memory, others get nothing, and a restart redelivers it all."
    remedy = "Set a prefetch before basic.consume: basic.qos with prefetch_count 10 to 300, or a window of credit."

    def __init__(self, observed: ObservedConnection) -> None:
        super().__init__(observed)
        self._prefetch: dict[int, tuple[int, int]] = {}
        """Epoch and prefetch of each channel: basic.qos-ok may come after the client has closed that epoch."""
        self._queues: dict[tuple[int, str], str] = {}
        """Queue of each consumer by credit that has to settle what it is sent."""
        self._infinite: dict[tuple[int, str], set[str]] = {}
        """Units in which a destination's credit is infinite, even before its subscription is answered."""

    @on(RequestAnswered, RequestSent)
    def _on_request(self, event: RequestAnswered | RequestSent) -> str | None:
        request = event.request
        if isinstance(request, BasicQos):
            self._prefetch[event.channel] = event.epoch, request.prefetch_count
        elif isinstance(request, BasicConsume) and not request.no_ack:
            epoch, prefetch = self._prefetch.get(event.channel, (None, 0))
            channel = self.observed.trace.channels.get(event.channel)
            is_known = epoch == event.epoch or (channel is not None and channel.knows_start)
            if is_known and not (epoch == event.epoch and prefetch):
                return f"a consumer of queue {request.queue or 'declared last'} has no prefetch limit"
        elif (change := credit_change(request)) is not None:
            return self._take((event.channel, change.consumer_tag), change)
        elif isinstance(cancel := equivalent(request), BasicCancel):
            place = (event.channel, cancel.consumer_tag)
            self._queues.pop(place, None)
            self._infinite.pop(place, None)
        return None

    def _take(self, place: tuple[int, str], change: CreditChange) -> str | None:
        if change.ends:
            self._infinite.pop(place, None)
        elif change.given == INFINITE:
            if place in self._infinite or len(self._infinite) < MAX_SUBSCRIPTIONS:
                self._infinite.setdefault(place, set()).add(change.unit)
        elif change.holds_of is not None and len(self._queues) < MAX_SUBSCRIPTIONS:
            self._queues[place] = change.holds_of
        return self._judge(place)

    def _judge(self, place: tuple[int, str]) -> str | None:
        """Return a finding if a subscription has infinite credit in all units; it is reported once."""
        if place not in self._queues or not self._infinite.get(place, set()).issuperset(UNITS):
            return None
        del self._infinite[place]
        return f"a consumer of queue {self._queues.pop(place)} has no prefetch limit"

    @on(ChannelClosed)
    def _on_closed(self, event: ChannelClosed) -> None:
        self._prefetch.pop(event.channel, None)
        self._queues = {place: queue for place, queue in self._queues.items() if place[0] != event.channel}
        self._infinite = {place: units for place, units in self._infinite.items() if place[0] != event.channel}

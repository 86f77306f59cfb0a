"""Consumers to which a broker sends the whole queue."""

from __future__ import annotations

from amqproxy.amqp010.commands import MessageCancel, MessageFlow, MessageStop, MessageSubscribe
from amqproxy.amqp010.domains import AcceptMode, AcquireMode, CreditUnit
from amqproxy.amqp091.methods import BasicConsume, BasicQos
from amqproxy.taps.findings.detector import Detector, ObservedConnection, on
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.events import ChannelClosed, RequestAnswered, RequestSent

INFINITE = 0xFFFFFFFF
"""0-10 credit that is never used up. Section 10.2, message.flow."""

MAX_SUBSCRIPTIONS = 1000
"""Limit on the subscriptions of one connection whose credit is remembered."""


class UnlimitedPrefetch(Detector):
    """A consumer acknowledges what it gets, and nothing limits how much it gets at once.

    In 0-10, nothing comes without credit: there it is one whose credit of messages and bytes is infinite.
    """

    kind = "unlimited-prefetch"
    severity = Severity.WARNING
    why = "The whole queue moves into the first consumer's memory, others starve, and a restart repeats all of it."
    remedy = "Set a prefetch before basic.consume: basic.qos with prefetch_count 10 to 300; in 0-10 a window."

    def __init__(self, observed: ObservedConnection) -> None:
        super().__init__(observed)
        self._prefetch: dict[int, int] = {}
        self._queues: dict[tuple[int, str], str] = {}
        """Queue of each 0-10 subscription that acquires messages and has to accept them."""
        self._infinite: dict[tuple[int, str], set[int]] = {}
        """Units in which a destination's credit is infinite, even before its subscription is answered."""

    @on(RequestAnswered, RequestSent)
    def _on_request(self, event: RequestAnswered | RequestSent) -> str | None:
        request = event.request
        if isinstance(request, BasicQos):
            self._prefetch[event.channel] = request.prefetch_count
        elif isinstance(request, BasicConsume) and not request.no_ack and not self._prefetch.get(event.channel):
            channel = self.observed.trace.channels.get(event.channel)
            if event.channel in self._prefetch or (channel is not None and channel.knows_start):
                return f"a consumer of queue {request.queue or 'declared last'} has no prefetch limit"
        elif isinstance(request, MessageSubscribe):
            place = (event.channel, request.destination or "")
            is_held = request.accept_mode != AcceptMode.NONE and request.acquire_mode != AcquireMode.NOT_ACQUIRED
            if is_held and len(self._queues) < MAX_SUBSCRIPTIONS:
                self._queues[place] = request.queue or ""
            return self._judge(place)
        elif isinstance(request, MessageCancel):
            place = (event.channel, request.destination or "")
            self._queues.pop(place, None)
            self._infinite.pop(place, None)
        elif isinstance(request, MessageStop):
            self._infinite.pop((event.channel, request.destination or ""), None)
        elif isinstance(request, MessageFlow) and request.value == INFINITE:
            place = (event.channel, request.destination or "")
            if place in self._infinite or len(self._infinite) < MAX_SUBSCRIPTIONS:
                self._infinite.setdefault(place, set()).add(request.unit or 0)
            return self._judge(place)
        return None

    def _judge(self, place: tuple[int, str]) -> str | None:
        """Return a finding if a subscription has infinite credit in all units; it is reported once."""
        if place not in self._queues or not self._infinite.get(place, set()).issuperset(CreditUnit):
            return None
        del self._infinite[place]
        return f"a consumer of queue {self._queues.pop(place)} has no prefetch limit"

    @on(ChannelClosed)
    def _on_closed(self, event: ChannelClosed) -> None:
        self._prefetch.pop(event.channel, None)
        self._queues = {place: queue for place, queue in self._queues.items() if place[0] != event.channel}
        self._infinite = {place: units for place, units in self._infinite.items() if place[0] != event.channel}

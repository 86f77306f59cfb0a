"""Consumers to which a broker sends all that it has."""

from __future__ import annotations

from amqproxy.amqp010.commands import MessageCancel, MessageFlow, MessageSubscribe
from amqproxy.amqp010.domains import AcceptMode, CreditUnit
from amqproxy.amqp091.methods import BasicConsume, BasicQos
from amqproxy.taps.findings.detector import Detector, ObservedConnection, on
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.events import ChannelClosed, RequestAnswered, RequestSent

INFINITE = 0xFFFFFFFF
"""The credit of 0-10 that is never used up. Section 10.2, message.flow."""

MAX_SUBSCRIPTIONS = 1000
"""Subscriptions of one connection whose credit is remembered."""


class UnlimitedPrefetch(Detector):
    """A consumer acknowledges what it gets, and nothing limits how much it gets at once.

    In 0-10, nothing comes without credit: there it is one whose credit of messages and bytes is infinite.
    """

    kind = "unlimited-prefetch"
    severity = Severity.WARNING
    why = "The whole queue moves into the first consumer's memory, others starve, and a restart repeats all of it."
    remedy = "Set a prefetch before basic.consume: basic.qos with prefetch_count 10 to 300."

    def __init__(self, observed: ObservedConnection) -> None:
        super().__init__(observed)
        self._prefetch: dict[int, int] = {}
        self._infinite: dict[tuple[int, str], tuple[str, set[int]]] = {}
        """The queue of each subscription that accepts explicitly, and the units of which its credit is infinite."""

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
            if request.accept_mode != AcceptMode.NONE and len(self._infinite) < MAX_SUBSCRIPTIONS:
                self._infinite[event.channel, request.destination or ""] = (request.queue or "", set())
        elif isinstance(request, MessageCancel):
            self._infinite.pop((event.channel, request.destination or ""), None)
        elif isinstance(request, MessageFlow):
            return self._flow(event.channel, request)
        return None

    def _flow(self, channel: int, flow: MessageFlow) -> str | None:
        """Credit is given to a subscription."""
        queue, units = self._infinite.get((channel, flow.destination or ""), ("", set()))
        if flow.value == INFINITE:
            units.add(flow.unit or 0)
        if not units.issuperset(CreditUnit):
            return None
        del self._infinite[channel, flow.destination or ""]
        return f"a consumer of queue {queue} has no prefetch limit"

    @on(ChannelClosed)
    def _on_closed(self, event: ChannelClosed) -> None:
        self._prefetch.pop(event.channel, None)
        self._infinite = {place: found for place, found in self._infinite.items() if place[0] != event.channel}

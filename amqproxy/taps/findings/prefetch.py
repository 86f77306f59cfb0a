"""Consumers to which a broker sends all that it has."""

from __future__ import annotations

from amqproxy.amqp091.methods import BasicConsume, BasicQos
from amqproxy.taps.findings.detector import Detector, ObservedConnection, on
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.events import ChannelClosed, RequestAnswered, RequestSent


class UnlimitedPrefetch(Detector):
    """A consumer acknowledges what it gets, and nothing limits how much it gets at once."""

    kind = "unlimited-prefetch"
    severity = Severity.WARNING
    why = "The whole queue moves into the first consumer's memory, others starve, and a restart repeats all of it."
    remedy = "Set a prefetch before basic.consume: basic.qos with prefetch_count 10 to 300."

    def __init__(self, observed: ObservedConnection) -> None:
        super().__init__(observed)
        self._prefetch: dict[int, int] = {}

    @on(RequestAnswered, RequestSent)
    def _on_request(self, event: RequestAnswered | RequestSent) -> str | None:
        request = event.request
        if isinstance(request, BasicQos):
            self._prefetch[event.channel] = request.prefetch_count
        elif isinstance(request, BasicConsume) and not request.no_ack and not self._prefetch.get(event.channel):
            channel = self.observed.trace.channels.get(event.channel)
            if event.channel in self._prefetch or (channel is not None and channel.knows_start):
                return f"a consumer of queue {request.queue or 'declared last'} has no prefetch limit"
        return None

    @on(ChannelClosed)
    def _on_closed(self, event: ChannelClosed) -> None:
        self._prefetch.pop(event.channel, None)

"""Messages that are kept safe until a client takes them without acknowledgement."""

from __future__ import annotations

from amqproxy.amqp091.methods import BasicConsume, BasicGet, QueueDeclare
from amqproxy.taps.findings.detector import Detector, ObservedConnection, on
from amqproxy.taps.findings.durable_queues import DurableQueues
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.equivalents import equivalent
from amqproxy.taps.trace.events import RequestAnswered, RequestSent


class AutoAckOfDurableQueue(Detector):
    """A durable queue is consumed with no_ack."""

    kind = "auto-ack"
    severity = Severity.WARNING
    why = "The broker forgets a message as it sends it: what the client has not processed when it stops is lost."
    remedy = (
        "Consume with acknowledgements (no_ack = false), or, where losing messages is fine, from an exclusive queue."
    )

    def __init__(self, observed: ObservedConnection) -> None:
        super().__init__(observed)
        self._queues = DurableQueues()

    @on(RequestAnswered, RequestSent)
    def _on_request(self, event: RequestAnswered | RequestSent) -> str | None:
        request = equivalent(event.request)
        if isinstance(request, QueueDeclare):
            self._queues.note(request, event.reply if isinstance(event, RequestAnswered) else None)
        elif isinstance(request, BasicConsume | BasicGet) and request.no_ack and request.queue in self._queues:
            name = request.name if event.request is None else event.request.name
            return f"{name} with no_ack takes messages of the durable queue {request.queue}"
        return None

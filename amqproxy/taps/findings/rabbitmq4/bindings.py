"""Bindings that a later RabbitMQ matches differently."""

from __future__ import annotations

from amqproxy.amqp091.methods import ExchangeBind, QueueBind
from amqproxy.rabbitmq.incompatibility import HEADERS_FLOAT
from amqproxy.taps.findings.detector import on
from amqproxy.taps.findings.rabbitmq4.upgrade_detector import UpgradeDetector
from amqproxy.taps.trace.events import RequestAnswered, RequestSent


class WholeFloatBound(UpgradeDetector):
    """A headers binding has a float that is a whole number."""

    incompatibility = HEADERS_FLOAT

    @on(RequestAnswered, RequestSent)
    def _on_request(self, event: RequestAnswered | RequestSent) -> str | None:
        request = event.request
        if not isinstance(request, QueueBind | ExchangeBind) or "x-match" not in request.arguments:
            return None
        for name, value in request.arguments.items():
            if isinstance(value, float) and value.is_integer():
                exchange = request.exchange if isinstance(request, QueueBind) else request.source
                return self.advice(f"a binding of exchange {exchange} with {name[:64]} = {value} is made")
        return None

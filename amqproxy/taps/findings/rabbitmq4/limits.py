"""Limits of connections and channels that a later RabbitMQ does not take as they are."""

from __future__ import annotations

from amqproxy.amqp091.methods import BasicCredit, BasicQos
from amqproxy.rabbitmq.incompatibility import BASIC_CREDIT, FRAME_MAX, GLOBAL_QOS
from amqproxy.taps.findings.detector import on
from amqproxy.taps.findings.rabbitmq4.upgrade_detector import TARGET, UpgradeDetector
from amqproxy.taps.trace.events import ConnectionOpened, RequestAnswered, RequestSent


class LowFrameMax(UpgradeDetector):
    """The client takes frames that are smaller than RabbitMQ 4.1 allows."""

    incompatibility = FRAME_MAX

    @on(ConnectionOpened)
    def _on_opened(self, event: ConnectionOpened) -> str | None:
        agreed = event.frame_max or TARGET.frame_max_floor  # 0 is no limit
        return self.advice(f"frame_max {agreed} is asked for") if agreed < TARGET.frame_max_floor else None


class GlobalQos(UpgradeDetector):
    """A prefetch is set for all consumers of a channel together."""

    incompatibility = GLOBAL_QOS

    @on(RequestAnswered, RequestSent)
    def _on_request(self, event: RequestAnswered | RequestSent) -> str | None:
        request = event.request
        if not isinstance(request, BasicQos) or not request.global_ or not request.prefetch_count:
            return None
        return self.advice(f"basic.qos with global = true and prefetch_count {request.prefetch_count} is asked for")


class CreditGranted(UpgradeDetector):
    """A client grants credit by basic.credit."""

    incompatibility = BASIC_CREDIT

    @on(RequestAnswered)
    def _on_request(self, event: RequestAnswered) -> str | None:
        return self.advice("basic.credit is sent") if isinstance(event.request, BasicCredit) else None

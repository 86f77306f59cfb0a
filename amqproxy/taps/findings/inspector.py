"""All detectors, on one connection."""

from __future__ import annotations

from collections.abc import Iterable

from amqproxy.taps.findings.auto_ack import AutoAckOfDurableQueue
from amqproxy.taps.findings.blocked_publishes import PublishWhileBlocked
from amqproxy.taps.findings.channel_churn import ChannelPerMessage
from amqproxy.taps.findings.consumer_churn import ConsumerPerMessage
from amqproxy.taps.findings.detector import Detector, Handler, ObservedConnection
from amqproxy.taps.findings.failed_connections import FailedConnection, FrameAfterClose
from amqproxy.taps.findings.failed_operations import FailedOperation
from amqproxy.taps.findings.finding import Finding, RecordNumber, is_reported
from amqproxy.taps.findings.heartbeats import HeartbeatsOff, MissedHeartbeats, PublisherHeartbeatsOff
from amqproxy.taps.findings.inequivalent_declare import InequivalentDeclare
from amqproxy.taps.findings.large_messages import LargeHeaders, LargeMessage
from amqproxy.taps.findings.late_acks import LateAck
from amqproxy.taps.findings.leaked_channels import LeakedChannels
from amqproxy.taps.findings.logins import GuestLogin, PlainWithoutTLS, RefusedLogin
from amqproxy.taps.findings.oversized_headers import HeaderOverFrameMax
from amqproxy.taps.findings.polling import GetPolling
from amqproxy.taps.findings.prefetch import UnlimitedPrefetch
from amqproxy.taps.findings.publishes import NackedPublish, ReturnedPublish, TransientToDurableQueue, UnconfirmedPublish
from amqproxy.taps.findings.requeue_loop import RequeueLoop
from amqproxy.taps.findings.slow_consumer import SlowConsumer
from amqproxy.taps.findings.unacked import UnackedGrowth
from amqproxy.taps.findings.unknown_ack import AckOnWrongChannel, UnknownAck
from amqproxy.taps.trace.events import TraceEvent

DETECTORS: tuple[type[Detector], ...] = (
    AckOnWrongChannel,
    AutoAckOfDurableQueue,
    ChannelPerMessage,
    ConsumerPerMessage,
    FailedConnection,
    FailedOperation,
    FrameAfterClose,
    GetPolling,
    GuestLogin,
    HeaderOverFrameMax,
    HeartbeatsOff,
    InequivalentDeclare,
    LargeHeaders,
    LargeMessage,
    LateAck,
    LeakedChannels,
    RefusedLogin,
    MissedHeartbeats,
    NackedPublish,
    PlainWithoutTLS,
    PublishWhileBlocked,
    PublisherHeartbeatsOff,
    RequeueLoop,
    ReturnedPublish,
    SlowConsumer,
    TransientToDurableQueue,
    UnackedGrowth,
    UnconfirmedPublish,
    UnknownAck,
    UnlimitedPrefetch,
)


class Inspector:
    """Finds what there is to find on one connection, numbered `stream` and named `connection`.

    With `is_counting`, each is reported, and not only the first, the tenth, the hundredth ….
    """

    def __init__(
        self, stream: int, connection: str, observed: ObservedConnection, *, is_counting: bool = False
    ) -> None:
        self._is_counting = is_counting
        self._stream = stream
        self._connection = connection
        self._counts: dict[str, int] = {}
        self._handlers: dict[type[TraceEvent], list[tuple[Detector, Handler]]] = {}
        for detector in (each(observed) for each in DETECTORS):
            for kind, handler in detector.handlers.items():
                self._handlers.setdefault(kind, []).append((detector, handler))

    def inspect(self, events: Iterable[TraceEvent], record: RecordNumber | None = None) -> list[Finding]:
        """What is found with these events, which the trace has just given, and which `record` has completed."""
        findings = []
        for event in events:
            for detector, handler in self._handlers.get(type(event), ()):
                text = handler(detector, event)
                if text is not None:
                    count = self._counts[detector.kind] = self._counts.get(detector.kind, 0) + 1
                    if self._is_counting or is_reported(count):
                        findings.append(self._finding(detector, event, text, count, record))
        return findings

    def _finding(
        self, detector: Detector, event: TraceEvent, text: str, count: int, record: RecordNumber | None
    ) -> Finding:
        return Finding(
            ts_ns=event.ts_ns,
            stream=self._stream,
            connection=self._connection,
            channel=event.on_channel,
            kind=detector.kind,
            severity=detector.severity,
            text=text,
            count=count,
            evidence=() if record is None else (record,),
            why=detector.why,
            remedy=detector.remedy,
        )

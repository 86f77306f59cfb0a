"""All detectors, on one connection."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from amqproxy import addons
from amqproxy.taps.findings.ack_timeout import AckTimeout
from amqproxy.taps.findings.auto_ack import AutoAckOfDurableQueue
from amqproxy.taps.findings.blocked_publishes import PublishWhileBlocked
from amqproxy.taps.findings.channel_churn import ChannelPerMessage
from amqproxy.taps.findings.consumer_churn import ConsumerPerMessage
from amqproxy.taps.findings.cut_connections import CutConnection
from amqproxy.taps.findings.dead_letter_loop import DeadLetterLoop
from amqproxy.taps.findings.detector import Detector, Handler, ObservedConnection
from amqproxy.taps.findings.expired_tokens import ExpiredToken
from amqproxy.taps.findings.failed_connections import FailedConnection, FrameAfterClose
from amqproxy.taps.findings.failed_operations import FailedOperation
from amqproxy.taps.findings.finding import Finding, RecordNumber, Severity, is_reported
from amqproxy.taps.findings.foreign_server import ForeignServer
from amqproxy.taps.findings.heartbeats import HeartbeatsOff, MissedHeartbeats, PublisherHeartbeatsOff
from amqproxy.taps.findings.idle_resets import IdleReset
from amqproxy.taps.findings.inequivalent_declare import InequivalentDeclare
from amqproxy.taps.findings.interleaved_content import InterleavedContent
from amqproxy.taps.findings.invalid_argument import InvalidArgument
from amqproxy.taps.findings.large_messages import LargeHeaders, LargeMessage
from amqproxy.taps.findings.late_acks import LateAck
from amqproxy.taps.findings.leaked_channels import LeakedChannels
from amqproxy.taps.findings.logins import GuestLogin, PlainWithoutTLS, RefusedLogin
from amqproxy.taps.findings.missing_close_ok import MissingCloseOk
from amqproxy.taps.findings.oversized_frames import OversizedFrame
from amqproxy.taps.findings.oversized_headers import HeaderOverFrameMax
from amqproxy.taps.findings.polling import GetPolling
from amqproxy.taps.findings.prefetch import UnlimitedPrefetch
from amqproxy.taps.findings.prefetch_exhausted import PrefetchExhausted
from amqproxy.taps.findings.publishes import NackedPublish, ReturnedPublish, TransientToDurableQueue, UnconfirmedPublish
from amqproxy.taps.findings.rabbitmq4.bindings import WholeFloatBound
from amqproxy.taps.findings.rabbitmq4.consumers import ConsumerOfMirroredQueue, SingleActiveCancelled
from amqproxy.taps.findings.rabbitmq4.declared_queues import (
    ClassicConsumerTimeout,
    QueueMasterLocator,
    QueueMode,
    QueueVersion,
    QuorumLengthBytes,
    TransientQueue,
)
from amqproxy.taps.findings.rabbitmq4.delivered_messages import RepeatedDelivery
from amqproxy.taps.findings.rabbitmq4.limits import CreditGranted, GlobalQos, LowFrameMax
from amqproxy.taps.findings.rabbitmq4.published_messages import (
    MandatoryReply,
    MessageOverLimit,
    QuorumPriority,
    RepublishedDeaths,
)
from amqproxy.taps.findings.requeue_loop import RequeueLoop
from amqproxy.taps.findings.slow_consumer import SlowConsumer
from amqproxy.taps.findings.stalled_confirms import StalledConfirms
from amqproxy.taps.findings.tuning import RefusedTuning
from amqproxy.taps.findings.unacked import UnackedGrowth
from amqproxy.taps.findings.unknown_ack import AckOnWrongChannel, UnknownAck
from amqproxy.taps.findings.unread_content import UnreadContent
from amqproxy.taps.trace.events import HistoryLost, TraceEvent

DETECTORS: tuple[type[Detector], ...] = (
    AckOnWrongChannel,
    AckTimeout,
    AutoAckOfDurableQueue,
    ChannelPerMessage,
    ClassicConsumerTimeout,
    ConsumerOfMirroredQueue,
    ConsumerPerMessage,
    CreditGranted,
    CutConnection,
    DeadLetterLoop,
    ExpiredToken,
    FailedConnection,
    FailedOperation,
    ForeignServer,
    FrameAfterClose,
    GetPolling,
    GlobalQos,
    GuestLogin,
    HeaderOverFrameMax,
    HeartbeatsOff,
    IdleReset,
    InequivalentDeclare,
    InterleavedContent,
    InvalidArgument,
    LargeHeaders,
    LargeMessage,
    LateAck,
    LeakedChannels,
    LowFrameMax,
    MandatoryReply,
    MessageOverLimit,
    MissedHeartbeats,
    MissingCloseOk,
    NackedPublish,
    OversizedFrame,
    PlainWithoutTLS,
    PrefetchExhausted,
    PublishWhileBlocked,
    PublisherHeartbeatsOff,
    QueueMasterLocator,
    QueueMode,
    QueueVersion,
    QuorumLengthBytes,
    QuorumPriority,
    RefusedLogin,
    RefusedTuning,
    RepeatedDelivery,
    RepublishedDeaths,
    RequeueLoop,
    ReturnedPublish,
    SingleActiveCancelled,
    SlowConsumer,
    StalledConfirms,
    TransientQueue,
    TransientToDurableQueue,
    UnackedGrowth,
    UnconfirmedPublish,
    UnknownAck,
    UnlimitedPrefetch,
    UnreadContent,
    WholeFloatBound,
)


@cache
def added() -> dict[type[Detector], str]:
    """Return the detectors of addons, with the names of their addons."""
    return {detector: name for name, detector in addons.loaded(addons.FINDINGS, _check).items()}


def _check(name: str, detector: Any) -> None:
    if not (isinstance(detector, type) and issubclass(detector, Detector)):
        raise ValueError("it is not a subclass of amqproxy.taps.findings.detector.Detector")
    if detector.kind != name or any(each.kind == name for each in DETECTORS):
        raise ValueError(f"its kind is {detector.kind!r}: it has to be {name!r}, as its entry point, and new")
    if not re.fullmatch("[a-z0-9-]+", name):
        raise ValueError("its kind must be of a-z, 0-9 and -")
    kinds: dict[str, type] = {"severity": Severity, "why": str, "remedy": str}
    for attribute, kind in kinds.items():
        if not isinstance(getattr(detector, attribute, None), kind):
            raise ValueError(f"its `{attribute}` is not a {kind.__name__}")


MAX_TEXTS = 1_000
"""Limit on the texts of one connection by which findings are counted; those with other texts are counted by kind."""


class Inspector:
    """All detectors of one connection, numbered `stream` and named `connection`, and their findings.

    With `is_counting`, each finding is reported, and not only the first, the tenth, the hundredth …. After a loss of
    history, detectors begin again, except those that handle `HistoryLost`.
    """

    def __init__(
        self, stream: int, connection: str, observed: ObservedConnection, *, is_counting: bool = False
    ) -> None:
        self._is_counting = is_counting
        self._stream = stream
        self._connection = connection
        self._counts: dict[str, int] = {}
        self._counts_by_text: dict[tuple[str, str], int] = {}
        self._observed = observed
        self._take([each(observed) for each in DETECTORS])
        for detector in added():
            try:
                self._take([*self._detectors, detector(observed)])
            except Exception as error:  # noqa: BLE001 - code of others may raise anything
                addons.fail(addons.FINDINGS, detector.kind, error)

    def _take(self, detectors: list[Detector]) -> None:
        self._detectors = detectors
        self._handlers: dict[type[TraceEvent], list[tuple[Detector, Handler]]] = {}
        self._waiting = [each for each in detectors if type(each).look is not Detector.look]
        for detector in detectors:
            for kind, handler in detector.handlers.items():
                self._handlers.setdefault(kind, []).append((detector, handler))

    def _begin_again(self) -> None:
        """Forget what detectors have counted: missed frames may have changed it."""
        detectors = []
        for each in self._detectors:
            try:
                detectors.append(each if HistoryLost in each.handlers else type(each)(self._observed))
            except Exception as error:  # noqa: BLE001 - raised again unless it is an addon's
                self._contain(each, error)
        self._take(detectors)

    def _contain(self, detector: Detector, error: Exception) -> None:
        """Leave out an addon's detector that has failed, for this connection; raise the failure of another."""
        if type(detector) not in added():
            raise error
        addons.fail(addons.FINDINGS, detector.kind, error)
        self._take([each for each in self._detectors if each is not detector])

    def inspect(self, events: Iterable[TraceEvent], record: RecordNumber | None = None) -> list[Finding]:
        """Return the findings in these events, just made by the trace; `record` is the frame that completed them."""
        findings: list[Finding] = []
        for event in events:
            findings += self.look(event.ts_ns)
            for detector, handler in self._handlers.get(type(event), ()):
                try:
                    text = handler(detector, event)
                    if text is None:
                        continue
                    findings += self._findings(detector, event.ts_ns, event.on_channel, text, record)
                except Exception as error:  # noqa: BLE001 - raised again unless it is an addon's
                    self._contain(detector, error)
            if isinstance(event, HistoryLost):
                self._begin_again()
        return findings

    def look(self, now_ns: int) -> list[Finding]:
        """Return the findings that are due by the passage of time alone."""
        findings: list[Finding] = []
        for detector in self._waiting:
            try:
                if detector.due_ns <= now_ns:
                    for ts_ns, channel, text in detector.look(now_ns):
                        findings += self._findings(detector, ts_ns, channel, text, None)
            except Exception as error:  # noqa: BLE001 - raised again unless it is an addon's
                self._contain(detector, error)
        return findings

    def _findings(
        self, detector: Detector, ts_ns: int, channel: int | None, text: str, record: RecordNumber | None
    ) -> list[Finding]:
        """Count a finding, and return it if it should be reported."""
        if not isinstance(text, str):
            raise TypeError(f"the text of a finding is a {type(text).__name__}")
        count = self._counts[detector.kind] = self._counts.get(detector.kind, 0) + 1
        if detector.is_counted_by_text:
            place = (detector.kind, text)
            if place in self._counts_by_text or len(self._counts_by_text) < MAX_TEXTS:
                count = self._counts_by_text[place] = self._counts_by_text.get(place, 0) + 1
        if not (self._is_counting or is_reported(count)):
            return []
        found = Finding(
            ts_ns=ts_ns,
            stream=self._stream,
            connection=self._connection,
            channel=channel,
            kind=detector.kind,
            severity=detector.severity,
            text=text,
            count=count,
            evidence=() if record is None else (record,),
            why=detector.why,
            remedy=detector.remedy,
        )
        return [found]

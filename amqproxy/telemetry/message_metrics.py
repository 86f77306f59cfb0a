"""Metrics of messages with OpenTelemetry's names, from the counts that the proxy keeps anyway.

The names are of the semantic conventions for messaging, which are in development, as of version 1.43:
https://opentelemetry.io/docs/specs/semconv/messaging/messaging-metrics/

The counts are those of `/metrics`: the SDK's instruments would cost each message microseconds, and know no pumps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Histogram,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    Sum,
)

from amqproxy.taps.metering.distribution import Distribution
from amqproxy.taps.metering.message_counts import Count, MessageCounts
from amqproxy.telemetry.message_span import DELIVER, GET, PUBLISH, AttributeValue, Operation

SCHEMA = "https://opentelemetry.io/schemas/1.43.0"

_GET = "basic.get"


class MessageMetrics:
    """The metrics of all connections since `start_ns`; `attributes` are those of the broker."""

    def __init__(self, counts: MessageCounts, attributes: Mapping[str, AttributeValue], start_ns: int) -> None:
        self._counts = counts
        self._attributes = attributes
        self._start_ns = start_ns

    def read(self, now_ns: int) -> Iterator[Metric]:
        """Yield the metrics as they are now, all cumulative."""
        counts = self._counts
        yield Metric(
            "messaging.client.sent.messages",
            "Number of messages that producers attempted to send to the broker.",
            "{message}",
            self._sum(PUBLISH, counts.values[Count.PUBLISHED], now_ns),
        )
        yield Metric(
            "messaging.client.consumed.messages",
            "Number of messages that were delivered to the application.",
            "{message}",
            self._sum(DELIVER, counts.values[Count.DELIVERED], now_ns),
        )
        operations = [(PUBLISH, counts.confirm_seconds)]
        if _GET in counts.requests:
            operations.append((GET, counts.requests[_GET]))
        yield Metric(
            "messaging.client.operation.duration",
            "Duration of a messaging operation: from a publish to its confirm, from basic.get to its answer.",
            "s",
            self._histogram(operations, now_ns),
        )
        yield Metric(
            "messaging.process.duration",
            "Duration of processing: from a delivery to its settlement.",
            "s",
            self._histogram([(DELIVER, counts.ack_seconds)], now_ns),
        )

    def _of(self, operation: Operation) -> dict[str, AttributeValue]:
        return {
            **self._attributes,
            "messaging.system": "rabbitmq",
            "messaging.operation.name": operation.name,
            "messaging.operation.type": operation.type,
        }

    def _sum(self, operation: Operation, value: int, now_ns: int) -> Sum:
        point = NumberDataPoint(self._of(operation), self._start_ns, now_ns, value)
        return Sum([point], AggregationTemporality.CUMULATIVE, is_monotonic=True)

    def _histogram(self, operations: Sequence[tuple[Operation, Distribution]], now_ns: int) -> Histogram:
        points = []
        for operation, distribution in operations:
            buckets = list(distribution.counts)
            points.append(
                HistogramDataPoint(
                    attributes=self._of(operation),
                    start_time_unix_nano=self._start_ns,
                    time_unix_nano=now_ns,
                    count=sum(buckets),
                    sum=distribution.total,
                    bucket_counts=buckets,
                    explicit_bounds=list(distribution.bounds),
                    min=None,  # type: ignore[arg-type]  # left out of the message: it is not known
                    max=None,  # type: ignore[arg-type]
                )
            )
        return Histogram(points, AggregationTemporality.CUMULATIVE)

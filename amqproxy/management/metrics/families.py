"""Metrics of single objects, by the families of RabbitMQ's `/metrics/detailed`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from amqproxy.management.call import Entry
from amqproxy.management.metrics.aggregated import COUNTS, NUMBERS
from amqproxy.management.metrics.metric import Metric
from amqproxy.management.metrics.node import V4


class Column(NamedTuple):
    """A metric of each object of a kind: its value in an object's entry, None where it has none."""

    metric: Metric
    value: Callable[[Entry], Any]
    labels: Callable[[Entry], dict[str, str]]


class Family(NamedTuple):
    """Metrics that are asked for together, of one kind of the broker's objects."""

    kind: str
    columns: Sequence[Column]
    is_of_vhost: bool = True
    """Whether a query's virtual hosts choose among the objects."""
    is_of_cluster: bool = False
    """Whether RabbitMQ serves it in `/metrics/detailed` only, with the prefix `rabbitmq_cluster_`."""


def _queue(entry: Entry) -> dict[str, str]:
    return {"vhost": entry["vhost"], "queue": entry["name"]}


def _routed_queue(entry: Entry) -> dict[str, str]:
    return {"queue_vhost": entry["vhost"], "queue": entry["name"]}


def _queue_info(entry: Entry) -> dict[str, str]:
    return {**_queue(entry), "queue_type": f"rabbit_{entry['type']}_queue", "membership": "leader"}


def _exchange(entry: Entry) -> dict[str, str]:
    return {"vhost": entry["vhost"], "exchange": entry["name"]}


def _exchange_name(entry: Entry) -> dict[str, str]:
    return {**_exchange(entry), "type": entry["type"]}


def _channel(entry: Entry) -> dict[str, str]:
    """Name the channel; RabbitMQ has an Erlang process there."""
    return {"channel": f"{entry['connection']} ({entry['channel']})"}


def _channel_of_vhost(entry: Entry) -> dict[str, str]:
    return {**_channel(entry), "vhost": entry["vhost"]}


def _connection(entry: Entry) -> dict[str, str]:
    """Name the connection; RabbitMQ calls this label channel, too."""
    return {"channel": entry["connection"]}


def _vhost(entry: Entry) -> dict[str, str]:
    return {"vhost": entry["name"]}


_METRICS = {metric.name: metric for table in (NUMBERS, COUNTS) for metrics in table.values() for metric in metrics}

_PLACES = {metric.name: place for (place, *_), metrics in COUNTS.items() for metric in metrics}
"""Places in an object's counts, by name of a metric."""


def _count(name: str, labels: Callable[[Entry], dict[str, str]]) -> Column:
    """Return the column of a counter of messages."""
    place = _PLACES[name]
    return Column(_METRICS[name], lambda entry: 0 if entry["counts"] is None else entry["counts"][place], labels)


def _counts(labels: Callable[[Entry], dict[str, str]], *names: str) -> list[Column]:
    return [_count(f"{name}_total", labels) for name in names]


def _number(name: str, key: str, labels: Callable[[Entry], dict[str, str]]) -> Column:
    """Return the column of a metric whose value is under a key of the entry."""
    return Column(_METRICS[name], lambda entry: entry[key], labels)


def _numbers(labels: Callable[[Entry], dict[str, str]], **keys: str) -> list[Column]:
    return [_number(name, key, labels) for name, key in keys.items()]


QUEUE_INFO = Column(
    Metric("queue_info", "gauge", "A metric with a constant '1' value and labels that provide some queue details", V4),
    lambda entry: 1,
    _queue_info,
)

FAMILIES: Mapping[str, Family] = {
    "queue_coarse_metrics": Family(
        "queues",
        [
            *_numbers(_queue, queue_messages_ready="ready", queue_messages_unacked="unacked"),
            Column(_METRICS["queue_messages"], lambda entry: entry["ready"] + entry["unacked"], _queue),
            QUEUE_INFO,
        ],
    ),
    "queue_metrics": Family(
        "queues",
        [*_numbers(_queue, queue_consumers="consumers", queue_messages_ready_bytes="ready_bytes"), QUEUE_INFO],
    ),
    "queue_consumer_count": Family("queues", [*_numbers(_queue, queue_consumers="consumers"), QUEUE_INFO]),
    "queue_delivery_metrics": Family(
        "queues",
        _counts(
            _queue,
            *("queue_get_ack", "queue_get", "queue_messages_delivered_ack", "queue_messages_delivered"),
            *("queue_messages_redelivered", "queue_messages_acked", "queue_get_empty"),
        ),
    ),
    "channel_queue_exchange_metrics": Family("queues", _counts(_routed_queue, "queue_messages_published")),
    "channel_metrics": Family(
        "channels",
        [
            *_numbers(_channel, channel_consumers="consumers", channel_messages_unacked="unacked"),
            Column(
                Metric("channel_messages_unconfirmed", "gauge", "Published but not yet confirmed messages"),
                lambda entry: entry["unconfirmed"],
                _channel,
            ),
            Column(
                Metric("consumer_prefetch", "gauge", "Limit of unacknowledged messages for each consumer"),
                lambda entry: entry["prefetch"],
                _channel,
            ),
        ],
        is_of_vhost=False,
    ),
    "channel_exchange_metrics": Family(
        "channels",
        _counts(
            _channel_of_vhost,
            *("channel_messages_published", "channel_messages_confirmed"),
            *("channel_messages_unroutable_returned", "channel_messages_unroutable_dropped"),
        ),
    ),
    "channel_queue_metrics": Family(
        "channels",
        _counts(
            _channel_of_vhost,
            *("channel_get_ack", "channel_get", "channel_messages_delivered_ack", "channel_messages_delivered"),
            *("channel_messages_redelivered", "channel_messages_acked", "channel_get_empty"),
        ),
    ),
    "connection_coarse_metrics": Family(
        "connections",
        _numbers(_connection, connection_incoming_bytes_total="received", connection_outgoing_bytes_total="sent"),
        is_of_vhost=False,
    ),
    "connection_metrics": Family(
        "connections", _numbers(_connection, connection_channels="channels"), is_of_vhost=False
    ),
    "exchange_metrics": Family(
        "exchanges",
        _counts(_exchange, "exchange_messages_published"),
    ),
    "vhost_status": Family(
        "vhosts",
        [Column(Metric("vhost_status", "gauge", "Whether a given vhost is running"), lambda entry: 1, _vhost)],
        is_of_cluster=True,
    ),
    "exchange_names": Family(
        "exchanges",
        [
            Column(
                Metric(
                    "exchange_name",
                    "gauge",
                    "Enumerates exchanges without any additional info. This value is cluster-wide. A cheaper"
                    " alternative to `exchange_bindings`",
                ),
                lambda entry: 1 if entry["name"] else None,
                _exchange_name,
            )
        ],
        is_of_cluster=True,
    ),
}

"""Metrics of the broker's only node: resources, churn, logins at the API; labels that identify it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version as installed_version

from amqproxy.management.call import Call
from amqproxy.management.metrics.metric import Labels, Metric
from amqproxy.management.resources.overview import cluster_id, cluster_name, runtime
from amqproxy.management.statistics.figures import CHURN

Sampled = tuple[Metric, list[tuple[Labels, float]]]
"""A metric with its samples."""

V4 = (4, 0)

COARSE = {
    "files": Metric("process_open_fds", "gauge", "Open file descriptors"),
    "connections": Metric("process_open_tcp_sockets", "gauge", "Open TCP sockets", until=V4),
    "memory": Metric("process_resident_memory_bytes", "gauge", "Memory used in bytes"),
    "disk_free": Metric("disk_space_available_bytes", "gauge", "Disk space available in bytes"),
}
LIMITS = {
    "files_limit": Metric("process_max_fds", "gauge", "Open file descriptors limit"),
    "memory_limit": Metric("resident_memory_limit_bytes", "gauge", "Memory high watermark in bytes"),
    "disk_free_limit": Metric("disk_space_available_limit_bytes", "gauge", "Free disk space low watermark in bytes"),
}
"""By key of the broker's facts."""

CHANGES = {
    "connection_created": Metric("connections_opened_total", "counter", "Total number of connections opened"),
    "connection_closed": Metric(
        "connections_closed_total", "counter", "Total number of connections closed or terminated"
    ),
    "channel_created": Metric("channels_opened_total", "counter", "Total number of channels opened"),
    "channel_closed": Metric("channels_closed_total", "counter", "Total number of channels closed"),
    "queue_declared": Metric("queues_declared_total", "counter", "Total number of queues declared"),
    "queue_created": Metric("queues_created_total", "counter", "Total number of queues created"),
    "queue_deleted": Metric("queues_deleted_total", "counter", "Total number of queues deleted"),
}

ATTEMPTS = Metric("auth_attempts_total", "counter", "Total number of authentication attempts")
SUCCEEDED = Metric("auth_attempts_succeeded_total", "counter", "Total number of successful authentication attempts")
FAILED = Metric("auth_attempts_failed_total", "counter", "Total number of failed authentication attempts")

ALARMS = {
    "disk": Metric(
        "alarms_free_disk_space_watermark", "unknown", "is 1 if free disk space watermark alarm is in effect"
    ),
    "memory": Metric("alarms_memory_used_watermark", "unknown", "is 1 if VM memory watermark alarm is in effect"),
}

PEERS = Metric(
    "unreachable_cluster_peers_count",
    "gauge",
    "Number of peers in the cluster the current node cannot reach.",
    since=V4,
)

BUILD = Metric("build_info", "unknown", "RabbitMQ & Erlang/OTP version info")
IDENTITY = Metric("identity_info", "unknown", "RabbitMQ node & cluster identity info")


def coarse(call: Call) -> Iterator[Sampled]:
    """Yield what is used of the machine."""
    yield from (_of(metric, call.facts[key]) for key, metric in COARSE.items() if call.facts[key] is not None)


def limits(call: Call) -> Iterator[Sampled]:
    """Yield the limits of what may be used; 0 for one that is not set."""
    yield from (_of(metric, call.facts[key] or 0) for key, metric in LIMITS.items())


def churn(call: Call) -> Iterator[Sampled]:
    """Yield the numbers of connections, channels and queues that came and went."""
    counts = dict(zip(CHURN, call.facts["churn"], strict=True))
    yield from (_of(metric, counts[key]) for key, metric in CHANGES.items())


def logins(call: Call) -> Iterator[Sampled]:
    """Yield the logins at this API; the broker does not count those of its other clients."""
    labels, attempts = {"protocol": "http"}, call.attempts
    yield ATTEMPTS, [(labels, attempts.succeeded + attempts.failed)]
    yield SUCCEEDED, [(labels, attempts.succeeded)]
    yield FAILED, [(labels, attempts.failed)]


def alarms(call: Call) -> Iterator[Sampled]:
    """Yield the alarms, each 1 while it is in effect."""
    yield from (_of(metric, name in call.facts["alarms"]) for name, metric in ALARMS.items())
    yield _of(PEERS, 0)


def build(call: Call) -> Sampled:
    """Return the versions of what runs, and of the RabbitMQ whose behaviour it has."""
    version = call.facts["version"]
    labels = {
        "rabbitmq_version": version,
        "prometheus_plugin_version": version,
        "prometheus_client_version": installed_version("prometheus-client"),
        "erlang_version": runtime()["erlang_version"],
    }
    return BUILD, [(labels, 1)]


def identity(call: Call, endpoint: str) -> Sampled:
    """Return the names of the node and its cluster."""
    labels = {
        "rabbitmq_node": call.facts.node,
        "rabbitmq_cluster": cluster_name(call.facts),
        "rabbitmq_cluster_permanent_id": cluster_id(call.facts),
    }
    if call.facts.is_4:
        labels["rabbitmq_endpoint"] = endpoint
    return IDENTITY, [(labels, 1)]


def _of(metric: Metric, value: float) -> Sampled:
    return metric, [({}, float(value))]

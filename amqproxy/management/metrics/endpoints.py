"""The broker's metrics for Prometheus, as of RabbitMQ's plugin rabbitmq_prometheus."""

from __future__ import annotations

from amqproxy.management.call import Call
from amqproxy.management.listing import Chunks
from amqproxy.management.metrics.aggregated import aggregated
from amqproxy.management.metrics.per_object import detailed, per_object

CONTENT_TYPE = "text/plain; version=0.0.4"


async def show_aggregated(call: Call) -> Chunks:
    return Chunks(aggregated(call), CONTENT_TYPE)


async def show_per_object(call: Call) -> Chunks:
    return Chunks(per_object(call), CONTENT_TYPE)


async def show_detailed(call: Call) -> Chunks:
    """Show the families that `family` names, in the virtual hosts that `vhost` names; each may be given repeatedly."""
    return Chunks(detailed(call, call.all_of("family"), call.all_of("vhost")), CONTENT_TYPE)

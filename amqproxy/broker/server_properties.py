"""The server properties in connection.start, as RabbitMQ sends them. Clients decide by it what they may ask for."""

from __future__ import annotations

from amqproxy.amqp091.wire import Table

RABBITMQ_VERSION = "3.10.8"
"""The version whose behaviour this is."""

CAPABILITIES = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)


def server_properties(version: str, node: str) -> Table:
    """The server properties of a broker of this version of ours, whose node has this name."""
    return Table(
        {
            "capabilities": dict.fromkeys(CAPABILITIES, True),
            "cluster_name": node,
            "copyright": "",
            "information": f"amqproxy {version}".strip() + ", which answers as RabbitMQ does",
            "platform": "Python",
            "product": "RabbitMQ",
            "version": RABBITMQ_VERSION,
        }
    )

"""Server properties in connection.start, as RabbitMQ sends them; clients choose the features they use by them."""

from __future__ import annotations

from amqproxy.amqp091.wire import Table
from amqproxy.rabbitmq.profile import CAPABILITIES, Profile


def server_properties(version: str, node: str, profile: Profile) -> Table:
    """Return the server properties for an amqproxy version and a node name, with the version of the profile."""
    return Table(
        {
            "capabilities": dict.fromkeys(CAPABILITIES, True),
            "cluster_name": node,
            "copyright": "",
            "information": f"amqproxy {version}".strip() + ", which answers as RabbitMQ does",
            "platform": "Python",
            "product": "RabbitMQ",
            "version": profile.version,
        }
    )

"""A connection to a version of RabbitMQ, under inspection."""

from __future__ import annotations

from amqproxy.amqp091.methods import (
    ChannelOpen,
    ChannelOpenOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    QueueDeclare,
    QueueDeclareOk,
)
from amqproxy.amqp091.wire import Table
from tests.taps.findings.inspected import Inspected


def connected(version: str = "3.10.8", product: str = "RabbitMQ", frame_max: int = 131_072) -> Inspected:
    """A connection of amqplib 0.10.3 and user shop, with channel 1."""
    inspected = Inspected(joined=True)
    inspected.trace.feed_protocol_header(0)
    inspected.server(ConnectionStart(server_properties=Table({"product": product, "version": version})), channel=0)
    client = Table({"product": "amqplib", "version": "0.10.3"})
    inspected.client(ConnectionStartOk(client, "PLAIN", b"\0shop\0secret"), channel=0)
    inspected.server(ConnectionTune(), channel=0)
    inspected.client(ConnectionTuneOk(frame_max=frame_max, heartbeat=60), ConnectionOpen("/"), channel=0)
    inspected.server(ConnectionOpenOk(), channel=0)
    inspected.client(ChannelOpen())
    inspected.server(ChannelOpenOk())
    return inspected


def declare(inspected: Inspected, queue: str = "q", *, durable: bool = True, **arguments: object) -> None:
    """Declare a queue; `_` in the name of an argument stands for a hyphen."""
    named = Table({name.replace("_", "-"): value for name, value in arguments.items()})
    inspected.client(QueueDeclare(queue=queue, durable=durable, arguments=named))
    inspected.server(QueueDeclareOk(queue or "amq.gen-1", 0, 0))


def advice(inspected: Inspected) -> list[tuple[str, str]]:
    """The kinds and texts of the findings about upgrades, without the common beginning of their kinds."""
    return [
        (each.kind.removeprefix("rabbitmq4-"), each.text)
        for each in inspected.findings
        if each.kind.startswith("rabbitmq4-")
    ]

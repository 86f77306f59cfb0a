"""Which scenarios there are, and whose."""

from tests.real.clients import aio_pika_client, amqplib_client, kombu_client, pika_client

CLIENTS = {"pika": pika_client, "aio-pika": aio_pika_client, "kombu": kombu_client, "amqplib": amqplib_client}
SCENARIOS = [
    "publish_consume",
    "confirms",
    "nack",
    "tx",
    "returns",
    "big_bodies",
    "many_channels",
    "queues",
    "blocked",
    "field_tables",
    "channel_error",
    "connection_error",
]

AMQPSTORM_SCENARIOS = [
    "publish_consume",
    "confirms",
    "nack",
    "tx",
    "big_bodies",
    "queues",
    "channel_error",
    "connection_error",
]

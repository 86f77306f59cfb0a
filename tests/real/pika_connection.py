"""A connection of pika to a proxy, closed in the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pika
import pika.exceptions
from pika.adapters.blocking_connection import BlockingConnection

from tests.real.poll import DEADLINE
from tests.real.proxy import Proxy
from tests.real.rabbitmq import RabbitMQ


@contextmanager
def connected(proxy: Proxy | RabbitMQ, **options: Any) -> Iterator[BlockingConnection]:
    parameters = pika.ConnectionParameters("127.0.0.1", proxy.port, socket_timeout=DEADLINE, **options)
    connection = BlockingConnection(parameters)
    try:
        yield connection
    finally:
        if connection.is_open:
            connection.close()

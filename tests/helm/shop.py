"""A shop: clients that publish orders with confirms, or consume them with acknowledgements, and always connect again.

    python -m tests.helm.shop NAME CONFIRMED     publishes until SIGTERM, and a few more after it, as the last work does

The environment has AMQP_ADDRESS, HOST:PORT. Each order that was confirmed becomes a line of the file CONFIRMED.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError

QUEUE = "orders"
LARGE = 300_000
"""Bytes of each fiftieth order: several frames, which a proxy that ends could cut."""

LAST_ORDERS = 200
"""What a shop still publishes after SIGTERM."""


class Client:
    """Connects, works, and connects again, in a thread, until it is stopped."""

    def __init__(self, port: Callable[[], int]) -> None:
        """`port` is asked before each connection: where a Service would lead to now."""
        self._port = port
        self._stopping = threading.Event()
        self.ends: list[BaseException] = []
        """Why connections that had been open ended."""
        self.connections = 0
        self.thread = threading.Thread(target=self.run, daemon=True)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self.thread.join(60)
        assert not self.thread.is_alive()

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self._port()))
            except AMQPError:
                self._stopping.wait(0.1)
                continue
            self.connections += 1
            try:
                self.work(connection.channel())
                connection.close()
            except AMQPError as error:
                self.ends.append(error)

    def work(self, channel: BlockingChannel) -> None:
        raise NotImplementedError


class Publisher(Client):
    """Publishes orders; `confirmed` has those that the broker answers for."""

    def __init__(self, port: Callable[[], int], name: str) -> None:
        super().__init__(port)
        self._name = name
        self._number = 0
        self.confirmed: list[str] = []

    def work(self, channel: BlockingChannel) -> None:
        channel.confirm_delivery()
        while not self._stopping.is_set():
            self.publish(channel)

    def publish(self, channel: BlockingChannel) -> None:
        self._number += 1
        order = f"{self._name}-{self._number}"
        body = bytes(10 if self._number % 50 else LARGE)
        channel.basic_publish("", QUEUE, body, pika.BasicProperties(message_id=order, delivery_mode=2), mandatory=True)
        self.confirmed.append(order)


class Consumer(Client):
    """Consumes orders; `received` has those that came whole."""

    def __init__(self, port: Callable[[], int]) -> None:
        super().__init__(port)
        self.received: set[str] = set()

    def work(self, channel: BlockingChannel) -> None:
        channel.basic_qos(prefetch_count=100)
        for method, properties, body in channel.consume(QUEUE, inactivity_timeout=0.1):
            if method is not None:
                assert len(body) in (10, LARGE)
                self.received.add(properties.message_id)
                channel.basic_ack(method.delivery_tag)
            if self._stopping.is_set():
                channel.cancel()
                return


class Shop(Publisher):
    """A publisher as a program: its last work begins when it is asked to end."""

    def work(self, channel: BlockingChannel) -> None:
        super().work(channel)
        for _ in range(LAST_ORDERS):
            self.publish(channel)


def main(name: str, confirmed: Path) -> None:
    port = int(os.environ["AMQP_ADDRESS"].rpartition(":")[2])
    shop = Shop(lambda: port, name)
    signal.signal(signal.SIGTERM, lambda *_: shop._stopping.set())
    shop.run()
    confirmed.write_text("\n".join(shop.confirmed) + "\n")
    if shop.ends:
        sys.exit(f"cut off: {shop.ends}")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

"""A small application: orders are placed on one queue, and a worker answers each with an invoice on another."""

import json
from contextlib import suppress
from typing import Any

import pika
import pika.exceptions

ORDERS, INVOICES = "orders", "invoices"


class NotPlaced(Exception):
    """The broker has not taken the order."""


class Shop:
    """One connection of the application, which is made again when it is lost."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._connect()

    def _connect(self) -> None:
        self._connection = pika.BlockingConnection(pika.URLParameters(self.url))
        self._channel = self._connection.channel()
        self._channel.confirm_delivery()
        self._channel.basic_qos(prefetch_count=10)
        for queue in (ORDERS, INVOICES):
            self._channel.queue_declare(queue, durable=True)

    def close(self) -> None:
        with suppress(pika.exceptions.AMQPError):  # it may be closed by now
            self._connection.close()

    def place(self, order: dict[str, Any]) -> None:
        """Publish an order; `NotPlaced` when the broker does not take it."""
        try:
            self._publish(ORDERS, order)
        except pika.exceptions.NackError as error:
            raise NotPlaced(order) from error
        except (pika.exceptions.AMQPConnectionError, pika.exceptions.StreamLostError):
            self._connect()
            self._publish(ORDERS, order)

    def work(self) -> None:
        """Answer the orders that there are. An order is acknowledged once its invoice is confirmed."""
        while True:
            delivery, _, body = self._channel.basic_get(ORDERS)
            if delivery is None:
                return
            order = json.loads(body)
            self._publish(INVOICES, {"order": order["number"], "total": order["count"] * order["price"]})
            self._channel.basic_ack(delivery.delivery_tag)

    def _publish(self, queue: str, content: dict[str, Any]) -> None:
        properties = pika.BasicProperties(content_type="application/json", delivery_mode=2)
        self._channel.basic_publish("", queue, json.dumps(content).encode(), properties, mandatory=True)

"""What the clients of a round do: the victim a bit of everything, the witness the same thing over and over."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pika
from pika.exceptions import AMQPError
from pika.spec import BasicProperties

PATIENCE = 10.0
"""Seconds after which a witness that has received nothing counts as disturbed."""

VICTIM_TIME = 2.0
"""Seconds after which the victim's socket is closed, however far it is."""


def parameters(port: int, name: str) -> pika.ConnectionParameters:
    return pika.ConnectionParameters(
        "127.0.0.1",
        port,
        socket_timeout=PATIENCE,
        stack_timeout=PATIENCE,
        blocked_connection_timeout=PATIENCE,
        client_properties={"connection_name": name},
        heartbeat=0,
    )


def close_after(connection: pika.BlockingConnection, seconds: float) -> threading.Timer:
    """Close the connection's socket after a while: pika itself waits for answers for ever."""
    sock = connection._impl._transport._sock

    def shut() -> None:
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, shut)
    timer.daemon = True
    timer.start()
    return timer


class Witness(threading.Thread):
    """Publishes with confirms, consumes and acknowledges what it published, and checks the order, until `stop`."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.complaint = ""
        self.rounds = 0
        self.is_up = threading.Event()
        self._ends = threading.Event()

    def run(self) -> None:
        try:
            self._watch()
        except (AMQPError, OSError, AssertionError) as error:
            self.complaint = f"after {self.rounds} messages: {type(error).__name__}: {error}"
        finally:
            self.is_up.set()

    def _watch(self) -> None:
        connection = pika.BlockingConnection(parameters(self.port, "witness"))
        timer = close_after(connection, 6 * PATIENCE)
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("witness", durable=True)
        channel.queue_purge("witness")
        consumer = connection.channel()
        consumed: list[bytes] = []
        consumer.basic_consume("witness", lambda c, m, p, body: (consumed.append(body), c.basic_ack(m.delivery_tag)))
        self.is_up.set()
        while not self._ends.is_set():
            bodies = [b"%d-%d" % (self.rounds, each) for each in range(3)]
            for body in bodies:
                channel.basic_publish("", "witness", body, BasicProperties(delivery_mode=2), mandatory=True)
            end = time.monotonic() + PATIENCE
            while len(consumed) < len(bodies):
                assert time.monotonic() < end, f"{len(consumed)} of {len(bodies)} came within {PATIENCE:g} s"
                connection.process_data_events(time_limit=PATIENCE)
            assert consumed == bodies, f"{consumed} came, and not {bodies}"
            consumed.clear()
            self.rounds += 1
        left = channel.queue_declare("witness", passive=True).method.message_count
        assert left == 0, f"{left} messages are left over"
        timer.cancel()
        connection.close()

    def stop(self) -> None:
        """Let it check its queue a last time; when it has, `complaint` is what it noticed, or empty."""
        self._ends.set()
        self.join(6 * PATIENCE)
        if self.is_alive():
            self.complaint = self.complaint or "it receives nothing any more"


def victim(port: int) -> pika.BlockingConnection | None:
    """Use the broker in most ways there are; nothing that fails matters. The connection stays open, if it can."""
    connection = None
    with suppress(AMQPError, OSError, AttributeError):
        connection = pika.BlockingConnection(parameters(port, "victim"))
        close_after(connection, VICTIM_TIME)
    for step in STEPS if connection is not None else ():
        with suppress(AMQPError, OSError, AttributeError, ValueError, KeyError):
            step(connection)
    return connection


def _on_channel(work: Callable[[Any], None]) -> Callable[[pika.BlockingConnection], None]:
    def step(connection: pika.BlockingConnection) -> None:
        channel = connection.channel()
        work(channel)
        channel.close()

    return step


@_on_channel
def _confirms(channel: Any) -> None:
    channel.confirm_delivery()
    channel.queue_declare(
        "victim", durable=True, arguments={"x-dead-letter-exchange": "victim.dead", "x-max-length": 5}
    )
    channel.exchange_declare("victim.dead", "fanout", durable=True)
    channel.queue_declare("victim.dead", durable=True)
    channel.queue_bind("victim.dead", "victim.dead")
    for number in range(8):
        channel.basic_publish("", "victim", b"%d" % number, BasicProperties(delivery_mode=2, expiration="60000"))
    with suppress(pika.exceptions.UnroutableError):
        channel.basic_publish("", "victim.unrouted", b"lost", mandatory=True)
    channel.basic_publish("", "victim", b"copied", BasicProperties(headers={"CC": ["victim.dead"], "n": 1}))


@_on_channel
def _acknowledge(channel: Any) -> None:
    channel.basic_qos(prefetch_count=3)
    for seen, (method, _, _) in enumerate(channel.consume("victim", inactivity_timeout=0.05)):
        if method is None or seen > 6:
            break
        if seen % 3 == 0:
            channel.basic_ack(method.delivery_tag)
        elif seen % 3 == 1:
            channel.basic_reject(method.delivery_tag, requeue=False)
        else:
            channel.basic_nack(method.delivery_tag, requeue=True)
    channel.cancel()
    method, _, _ = channel.basic_get("victim.dead")
    channel.basic_recover(requeue=True)
    channel.queue_purge("victim.dead")


@_on_channel
def _exchanges(channel: Any) -> None:
    for kind in ("topic", "headers", "direct"):
        name = f"victim.{kind}"
        channel.exchange_declare(name, kind, arguments={"alternate-exchange": "victim.dead"})
        channel.queue_bind("victim", name, "a.*", {"x-match": "all", "n": 1})
        channel.basic_publish(name, "a.b", b"x" * 5000, BasicProperties(headers={"n": 1}))
    channel.exchange_bind("victim.dead", "victim.topic", "#")
    channel.basic_publish("victim.topic", "b", b"on")
    channel.queue_unbind("victim", "victim.topic", "a.*")
    channel.exchange_delete("victim.headers")


@_on_channel
def _transaction(channel: Any) -> None:
    channel.tx_select()
    channel.basic_publish("", "victim", b"kept")
    channel.tx_commit()
    channel.basic_publish("", "victim", b"forgotten")
    channel.tx_rollback()


@_on_channel
def _queue_types(channel: Any) -> None:
    channel.queue_declare("victim.quorum", durable=True, arguments={"x-queue-type": "quorum", "x-delivery-limit": 2})
    channel.queue_declare("victim.stream", durable=True, arguments={"x-queue-type": "stream"})
    channel.queue_declare("victim.priority", arguments={"x-max-priority": 4, "x-message-ttl": 20, "x-expires": 200})
    for name in ("victim.quorum", "victim.stream", "victim.priority"):
        channel.basic_publish("", name, b"x", BasicProperties(delivery_mode=2, priority=2))
    channel.basic_qos(prefetch_count=2)
    channel.basic_consume("victim.quorum", lambda c, m, p, b: c.basic_nack(m.delivery_tag))
    channel.basic_consume(
        "victim.stream", lambda c, m, p, b: c.basic_ack(m.delivery_tag), arguments={"x-stream-offset": 0}
    )
    channel.connection.process_data_events(time_limit=0.05)
    channel.queue_delete("victim.priority")


@_on_channel
def _reply_to(channel: Any) -> None:
    channel.basic_consume("amq.rabbitmq.reply-to", lambda c, m, p, b: None, auto_ack=True)
    channel.basic_publish("", "victim.quorum", b"ask", BasicProperties(reply_to="amq.rabbitmq.reply-to"))


def _go_wrong(connection: pika.BlockingConnection) -> None:
    with suppress(pika.exceptions.ChannelClosedByBroker):
        connection.channel().queue_declare("victim.missing", passive=True)
    exclusive = connection.channel()
    exclusive.queue_declare("victim.exclusive", exclusive=True)
    exclusive.basic_publish("", "victim.exclusive", b"unacknowledged")
    exclusive.basic_get("victim.exclusive")  # and it stays so


STEPS: tuple[Callable[[pika.BlockingConnection], None], ...] = (
    _confirms,
    _acknowledge,
    _exchanges,
    _transaction,
    _queue_types,
    _reply_to,
    _go_wrong,
)

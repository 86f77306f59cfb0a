"""Traffic in which everything happens that the proxy counts."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError, ChannelClosedByBroker, NackError, UnroutableError

from tests.real import raw
from tests.real.poll import until

MOST_CONNECTIONS = 20
"""The proxy's `limits.connections`."""

RULES: list[dict[str, Any]] = [
    {"name": "no probes", "action": "refuse", "match": {"method": "queue.declare", "queue": "probe"}},
    {"name": "no large ones", "action": "refuse", "mode": "shadow", "when": "method == 'basic.publish' && size > 100"},
    {
        "name": "look at refunds",
        "action": "hold",
        "match": {"method": "basic.publish", "routing_key": "refunds"},
        "timeout": 600,
    },
    {"name": "fails", "action": "tag", "tags": ["x"], "match": {"routing_key": "fails"}, "when": "100 / size > 1"},
    {"name": "copy", "action": "mirror", "upstream": "nowhere", "match": {"exchange": "amq.topic"}},
]


class Traffic:
    """Clients of the proxy on a loopback port."""

    def __init__(self, port: int) -> None:
        self._port = port

    @contextmanager
    def connection(self, **parameters: Any) -> Iterator[pika.BlockingConnection]:
        defaults = {"host": "127.0.0.1", "port": self._port, "blocked_connection_timeout": 30, "heartbeat": 0}
        connection = pika.BlockingConnection(pika.ConnectionParameters(**(defaults | parameters)))
        try:
            yield connection
        finally:
            with suppress(AMQPError):
                connection.close()

    def everything(self) -> None:
        """One round of all that needs neither a broken broker nor a blocked one."""
        login = threading.Thread(target=self._log_in_wrongly)
        login.start()  # it is answered after three seconds
        with self.connection() as connection:
            self._publish(connection.channel())
            self._consume(connection.channel())
            self._fail(connection)
        with self.connection(frame_max=4096):
            """RabbitMQ 4.3 would refuse it."""
        self._break_the_protocol()
        login.join()
        self._come_in_masses()

    @contextmanager
    def held_open(self) -> Iterator[None]:
        """Meanwhile a consumer holds a message, and a publish waits for its confirm where a rule holds it."""
        with raw.Peer.opened(self._port, 1) as publisher, self.connection() as connection:
            publisher.send(raw.method(1, 85, 10, b"\0"))
            publisher.expect(85, 11)
            publisher.send(raw.message(1, "refunds", b"never confirmed"))
            channel = connection.channel()
            queue = _queue(channel)
            channel.basic_publish("", queue, b"never acked")
            arrived: list[int] = []
            channel.basic_consume(
                queue, lambda _channel, method, _properties, _body: arrived.append(method.delivery_tag)
            )
            until(lambda: connection.process_data_events() or arrived, "a delivery")
            yield

    def publish_until_blocked(self, connection: pika.BlockingConnection) -> None:
        """The broker blocks who publishes."""
        blocked: list[object] = []
        connection.add_on_connection_blocked_callback(lambda *reason: blocked.append(reason))
        channel = connection.channel()

        def is_blocked() -> bool:
            if not blocked:
                channel.basic_publish("", "anything", b"of which there is too much")
                connection.process_data_events()
            return bool(blocked)

        until(is_blocked, "the connection to be blocked")

    def fail_to_connect(self) -> None:
        """Where there is no broker."""
        with suppress(AMQPError), self.connection():
            pass

    def _publish(self, channel: BlockingChannel) -> None:
        channel.confirm_delivery()
        queue = _queue(channel)
        for size in (10, 1000):
            channel.basic_publish("", queue, bytes(size))
        channel.basic_publish("amq.topic", "copied", b"to a broker that is not there")
        with suppress(UnroutableError):
            channel.basic_publish("", "no-such-queue", b"returned", mandatory=True)
        full = _queue(channel, {"x-max-length": 1, "x-overflow": "reject-publish"})
        with suppress(NackError):
            for _ in range(2):
                channel.basic_publish("", full, b"nacked")

    def _consume(self, channel: BlockingChannel) -> None:
        queue = _queue(channel)
        for number in range(4):
            channel.basic_publish("", queue, b"%d" % number)
        channel.basic_qos(prefetch_count=10)
        for number, (method, _, _) in enumerate(channel.consume(queue)):
            match number:
                case 0:
                    channel.basic_nack(method.delivery_tag, requeue=True)
                case 1:
                    channel.basic_reject(method.delivery_tag, requeue=False)
                case _:
                    channel.basic_ack(method.delivery_tag)
            if number == 4:
                break
        channel.cancel()
        channel.basic_publish("", queue, b"auto-acked")
        next(channel.consume(queue, auto_ack=True))
        channel.cancel()

    def _fail(self, connection: pika.BlockingConnection) -> None:
        for attempt in (
            lambda channel: channel.queue_declare("no-such-queue", passive=True),
            lambda channel: channel.queue_declare("probe"),
        ):
            with suppress(ChannelClosedByBroker):
                attempt(connection.channel())
        channel = connection.channel()
        channel.confirm_delivery()
        with suppress(AMQPError):
            channel.basic_publish("", "fails", b"")
        with suppress(AMQPError), self.connection(virtual_host="no-such-vhost"):
            pass

    def _log_in_wrongly(self) -> None:
        credentials = pika.PlainCredentials("guest", "wrong")
        with suppress(AMQPError), self.connection(credentials=credentials):
            pass

    def _break_the_protocol(self) -> None:
        for header in (raw.PROTOCOL_HEADER + b"\x09garbage that is no frame", b"AMQP\x00\x01\x00\x00"):
            with raw.Peer.connect(self._port) as peer:
                peer.send(header)
                while peer.stream.recv(4096):
                    pass

    def _come_in_masses(self) -> None:
        """One client too many."""
        with ExitStack() as stack:
            peers = [stack.enter_context(raw.Peer.connect(self._port)) for _ in range(MOST_CONNECTIONS + 1)]
            assert peers[-1].read() is None, "the last one is turned away"


def _queue(channel: BlockingChannel, arguments: dict[str, Any] | None = None) -> str:
    name: str = channel.queue_declare("", exclusive=True, arguments=arguments).method.queue
    return name

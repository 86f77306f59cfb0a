"""Records the captures of `captures/` anew: `python -m tests.capture.record_captures [NAME…]`.

Real clients talk to a private RabbitMQ while dumpcap listens on loopback, which takes the right to capture. Of what it
writes only the packets are kept. Then run `python -m tests.capture.golden`, and read what changed.
"""

from __future__ import annotations

import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path

import kombu
import pika
from pika.exceptions import ChannelClosedByBroker, NackError, ProbableAuthenticationError, UnroutableError

from amqproxy.capture.files import read_packets
from tests.capture import building
from tests.capture.golden import FOLDER
from tests.real import raw
from tests.real.rabbitmq import RabbitMQ
from tests.real.raw import Peer, longstr, shortstr
from tests.real.require import require


def connect(node: RabbitMQ, **options: object) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", node.port, **options))


def publish_get_ack(node: RabbitMQ) -> None:
    """Declare, bind, publish with every property, get, ack, reject, get nothing, close."""
    with connect(node) as connection:
        channel = connection.channel()
        channel.exchange_declare("orders", "topic", auto_delete=True)
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(queue, "orders", "orders.*.new")
        properties = pika.BasicProperties(
            content_type="application/json",
            content_encoding="utf-8",
            headers={"attempt": 1, "tenant": "acme", "nested": {"list": [1, "two", None, True]}},
            delivery_mode=2,
            priority=3,
            correlation_id="c-1",
            reply_to="replies",
            expiration="60000",
            message_id="m-1",
            timestamp=1_700_000_000,
            type="order",
            user_id="guest",
            app_id="recorder",
            cluster_id="",
        )
        for _ in range(2):
            channel.basic_publish("orders", "orders.eu.new", b'{"id": 1}', properties)
        first, _, _ = channel.basic_get(queue)
        channel.basic_ack(first.delivery_tag)
        second, _, _ = channel.basic_get(queue)
        channel.basic_reject(second.delivery_tag, requeue=False)
        channel.basic_get(queue)
        channel.queue_unbind(queue, "orders", "orders.*.new")
        channel.queue_purge(queue)
        channel.queue_delete(queue)


def confirms(node: RabbitMQ) -> None:
    """Confirm mode: an ack, a return before its ack, and a nack from a full queue."""
    with connect(node) as connection:
        channel = connection.channel()
        arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
        queue = channel.queue_declare("", exclusive=True, arguments=arguments).method.queue
        channel.confirm_delivery()
        channel.basic_publish("", queue, b"taken", mandatory=True)
        with suppress(NackError):
            channel.basic_publish("", queue, b"refused", mandatory=True)
        with suppress(UnroutableError):
            channel.basic_publish("", "nowhere", b"returned", mandatory=True)


def transactions(node: RabbitMQ) -> None:
    """A commit and a rollback."""
    with connect(node) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.tx_select()
        channel.basic_publish("", queue, b"kept")
        channel.tx_commit()
        channel.basic_publish("", queue, b"forgotten")
        channel.tx_rollback()


def consume_large(node: RabbitMQ) -> None:
    """Two consumers on two channels, prefetch, bodies of several frames, a body of none, cancel."""
    with connect(node, frame_max=4096) as connection:
        publishing, consuming = connection.channel(), connection.channel()
        queue = consuming.queue_declare("", exclusive=True).method.queue
        consuming.basic_qos(prefetch_count=2)
        for size in (10_000, 0, 4_088, 4_089):
            publishing.basic_publish("", queue, bytes(range(256)) * (size // 256) + b"." * (size % 256))
        for got, (method, _, _) in enumerate(consuming.consume(queue, inactivity_timeout=5), 1):
            consuming.basic_ack(method.delivery_tag, multiple=got == 4)
            if got == 4:
                break
        consuming.cancel()


def channel_error(node: RabbitMQ) -> None:
    """A channel that the broker closes with 404, and another in its place."""
    with connect(node) as connection:
        with suppress(ChannelClosedByBroker):
            connection.channel().queue_declare("missing", passive=True)
        connection.channel().queue_declare("", exclusive=True)


def login_refused(node: RabbitMQ) -> None:
    """A wrong password, answered by 403."""
    with suppress(ProbableAuthenticationError):
        connect(node, credentials=pika.PlainCredentials("guest", "wrong"))


def heartbeats(node: RabbitMQ) -> None:
    """A connection that is idle for a few seconds, with a heartbeat each second."""
    with connect(node, heartbeat=2) as connection:
        connection.process_data_events(2.5)


def blocked(node: RabbitMQ) -> None:
    """connection.blocked and unblocked, since the node runs out of memory for a while."""
    with connect(node) as connection:
        channel = connection.channel()
        node.ctl("set_vm_memory_high_watermark", "0.0000001")
        channel.basic_publish("", "nowhere", b"stuck")
        connection.process_data_events(1)
        node.ctl("set_vm_memory_high_watermark", "0.4")
        connection.process_data_events(1)


def kombu_table(node: RabbitMQ) -> None:
    """py-amqp's encoding of headers: floats, decimals, times, bytes, lists and tables."""
    with kombu.Connection(f"pyamqp://guest:guest@127.0.0.1:{node.port}//") as connection:
        queue = connection.SimpleQueue("kombu", queue_opts={"auto_delete": True, "durable": False})
        headers = {
            "whole": 7,
            "large": 1 << 40,
            "negative": -1,
            "float": 2.5,
            "decimal": Decimal("12.34"),
            "time": datetime(2023, 11, 14, tzinfo=UTC),
            "text": "žluťoučký",
            "octets": b"\xff\xfe",
            "list": [1, [2.5, None], {"deep": True}],
            "nothing": None,
        }
        queue.put({"id": 1}, headers=headers, compression="zlib")
        message = queue.get(timeout=5)
        message.ack()
        queue.close()


def every_type(node: RabbitMQ) -> None:
    """Headers with every type of field, which no client writes: from a socket, and as RabbitMQ gives them back."""
    fields = {
        "t": b"\1",
        "b": b"\x80",
        "B": b"\xff",
        "s": b"\x80\x00",
        "u": b"\xff\xff",
        "I": b"\x80\0\0\0",
        "i": b"\xff\xff\xff\xff",
        "l": b"\x80" + bytes(7),
        "f": struct.pack(">f", 0.5),
        "d": struct.pack(">d", -1e300),
        "D": b"\2\0\0\4\xd2",
        "S": longstr(b"text"),
        "x": longstr(b"\0\xff"),
        "T": struct.pack(">Q", 1_700_000_000),
        "V": b"",
        "A": longstr(b"t\0" + b"V" + b"S" + longstr(b"in a list")),
        "F": longstr(shortstr("inner") + b"I\0\0\0\1" + shortstr("") + b"V"),
    }
    table = b"".join(shortstr(f"a-{kind}") + kind.encode() + value for kind, value in fields.items())
    with Peer.opened(node.port, 1) as peer:
        queue = peer.declare()
        content = raw.header(1, 4, flags=0x2000, properties=longstr(table)) + raw.body(1, b"body")
        peer.send(raw.publish(1, queue), content)
        peer.send(raw.method(1, 60, 70, b"\0\0" + shortstr(queue) + b"\1"))
        peer.expect(60, 71)
        peer.read()
        peer.read()
        peer.send(raw.connection_close())
        peer.expect(10, 51)


SCENARIOS: dict[str, Callable[[RabbitMQ], None]] = {
    "publish-get-ack": publish_get_ack,
    "confirms": confirms,
    "transactions": transactions,
    "consume-large": consume_large,
    "channel-error": channel_error,
    "login-refused": login_refused,
    "heartbeats": heartbeats,
    "blocked": blocked,
    "kombu-table": kombu_table,
    "every-type": every_type,
}


def recorded(port: int, play: Callable[[], None], dumped: Path) -> bytes:
    """Return a capture of what passes on a loopback port while `play` runs; `dumped` is a file for dumpcap."""
    program = require("dumpcap", package="wireshark-common")
    command = [program, "-q", "-B", "64", "-i", "lo", "-f", f"tcp port {port}", "-w", str(dumped)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as dumpcap:
        assert dumpcap.stderr is not None
        for line in dumpcap.stderr:
            if line.startswith("File:"):
                break
        try:
            play()
            time.sleep(0.5)
        finally:
            dumpcap.send_signal(signal.SIGINT)
            dumpcap.stderr.read()
    packets = [(packet.ts_ns, packet.data) for packet in read_packets(dumped)]
    return building.pcapng(packets)


def main(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory, "rabbitmq")
        home.mkdir()
        node = RabbitMQ(home)
        try:
            node.start()
            node.ctl("set_cluster_name", "recorded")
            for name in names or SCENARIOS:
                data = recorded(node.port, partial(SCENARIOS[name], node), Path(directory, f"{name}.pcapng"))
                FOLDER.joinpath(f"{name}.pcapng").write_bytes(data)
                sys.stdout.write(f"{name}: {len(data)} bytes\n")
        finally:
            node.stop()


if __name__ == "__main__":
    main(sys.argv[1:])

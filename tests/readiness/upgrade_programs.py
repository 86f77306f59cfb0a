"""Programs written for RabbitMQ 3, of which half break on RabbitMQ 4.3 with transient queues denied.

Each raises where the broker does not do what the program was written for.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aio_pika
import kombu
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.real import applications
from tests.real.celery_run import three_tasks
from tests.real.clients import Broker
from tests.real.clients.aio_pika_client import in_a_loop
from tests.real.clients.amqplib_client import HERE, installed
from tests.real.clients.amqpstorm_client import channel_of
from tests.real.clients.rabbitmq_c_client import tool
from tests.real.old_celery import old_celery
from tests.real.rabbitmq_installation import SYSTEM
from tests.real.require import require

FOLDER = Path(__file__).parents[2] / "captures" / "upgrade"
"""The captures of the programs."""

Play = Callable[[Broker], None]

LIMIT = 16_777_216
"""RabbitMQ 4's max_message_size in bytes."""

RETURNS = 25
"""Deliveries of one message, above RabbitMQ 4's delivery limit of 20."""

PATIENCE = 30.0
"""Seconds for an application that is refused again and again."""

PIKA = "Pika Python Client Library"


@dataclass(frozen=True)
class Program:
    """A program, the findings that say that it breaks, and the `version` of the broker that it was recorded with."""

    name: str
    product: str
    play: Play
    breaks: frozenset[str] = frozenset()
    version: str = "3.10"

    def __str__(self) -> str:
        return self.name


# --- pika


def _pika(work: Callable[[BlockingChannel], None], **options: Any) -> Play:
    def play(broker: Broker) -> None:
        with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.port, **options)) as connection:
            work(connection.channel())

    return play


def _declared(name: str, *, size: int = 10, **options: Any) -> Callable[[BlockingChannel], None]:
    """Return the work of a channel that declares a queue, sends itself a message, and deletes the queue."""

    def work(channel: BlockingChannel) -> None:
        declared = channel.queue_declare(name, **options).method.queue
        channel.confirm_delivery()
        channel.basic_publish("", declared, bytes(size), mandatory=True)
        _, _, body = channel.basic_get(declared, auto_ack=True)
        assert body == bytes(size)
        channel.queue_delete(declared)

    return work


def _returned(name: str, *, rejects: bool, limit: int | None = None) -> Callable[[BlockingChannel], None]:
    """Return the work of a channel that gets a message and returns it, until it has come often enough or is lost."""

    def work(channel: BlockingChannel) -> None:
        limits = {} if limit is None else {"x-delivery-limit": limit}
        channel.queue_declare(name, durable=True, arguments={"x-queue-type": "quorum", **limits})
        try:
            channel.confirm_delivery()
            channel.basic_publish("", name, b"poison")
            channel.basic_qos(prefetch_count=1)
            count = 0
            for method, _, _ in channel.consume(name, inactivity_timeout=2):
                if method is None:
                    break
                count += 1
                if count == RETURNS:
                    channel.basic_ack(method.delivery_tag)
                    break
                (channel.basic_reject if rejects else channel.basic_nack)(method.delivery_tag, requeue=True)
            channel.cancel()
            assert (count < RETURNS) == (limit is not None), count
        finally:
            channel.queue_delete(name)

    return work


def _consumed(channel: BlockingChannel) -> None:
    channel.queue_declare("prefetch", durable=True)
    channel.basic_qos(prefetch_count=2)
    channel.confirm_delivery()
    for number in range(5):
        channel.basic_publish("", "prefetch", b"%d" % number)
    for got, (method, _, _) in enumerate(channel.consume("prefetch"), 1):
        channel.basic_ack(method.delivery_tag)
        if got == 5:
            break
    channel.cancel()
    channel.queue_delete("prefetch")


def _no_prefetch_of_the_channel(channel: BlockingChannel) -> None:
    channel.basic_qos(prefetch_count=0, global_qos=True)
    _declared("unlimited", durable=True)(channel)


def _passively_declared(channel: BlockingChannel) -> None:
    channel.queue_declare("passive", durable=True)
    channel.queue_declare("passive", passive=True, durable=False)
    channel.queue_delete("passive")


def _stream_read(channel: BlockingChannel) -> None:
    channel.queue_declare("stream", durable=True, arguments={"x-queue-type": "stream"})
    channel.confirm_delivery()
    channel.basic_publish("", "stream", b"event")
    channel.basic_qos(prefetch_count=10)
    for method, _, _ in channel.consume("stream", arguments={"x-stream-offset": "first"}):
        channel.basic_ack(method.delivery_tag)
        break
    channel.cancel()
    channel.queue_delete("stream")


# --- kombu, aio-pika, AMQPStorm, rabbitmq-c


def _kombu(name: str, arguments: dict[str, Any] | None = None) -> Play:
    def play(broker: Broker) -> None:
        url = f"pyamqp://guest:guest@127.0.0.1:{broker.port}//"
        with kombu.Connection(url) as connection, connection.channel() as channel:
            queue = kombu.Queue(name, durable=True, queue_arguments=arguments, channel=channel)
            queue.declare()
            connection.Producer(channel).publish("hello", routing_key=name)
            queue.delete()

    return play


def _headers_bound(broker: Broker) -> None:
    url = f"pyamqp://guest:guest@127.0.0.1:{broker.port}//"
    with kombu.Connection(url) as connection, connection.channel() as channel:
        exchange = kombu.Exchange("headers", "headers", channel=channel)
        queue = kombu.Queue("headers", exchange, binding_arguments={"x-match": "all", "tenant": 1}, channel=channel)
        queue.declare()
        connection.Producer(channel).publish("hello", exchange=exchange, headers={"tenant": 1})
        queue.delete()
        exchange.delete()


@in_a_loop
async def _aio_pika_transient(broker: Broker) -> None:
    async with await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{broker.port}/") as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue("aio-pika", auto_delete=True)
        await channel.default_exchange.publish(aio_pika.Message(b"hello"), queue.name)
        await queue.delete(if_unused=False, if_empty=False)


@in_a_loop
async def _aio_pika_large(broker: Broker) -> None:
    async with await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{broker.port}/") as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue("large", durable=True)
        await channel.default_exchange.publish(aio_pika.Message(bytes(1 << 20)), queue.name)
        await queue.delete(if_unused=False, if_empty=False)


@in_a_loop
async def _aio_pika_request(broker: Broker) -> None:
    """A request whose reply comes without a queue."""
    async with await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{broker.port}/") as connection:
        channel = await connection.channel(publisher_confirms=False)
        requests = await channel.declare_queue("requests", exclusive=True)
        replies = await channel.get_queue("amq.rabbitmq.reply-to", ensure=False)
        async with replies.iterator(no_ack=True, timeout=PATIENCE) as reply:
            request = aio_pika.Message(b"ping", reply_to=replies.name)
            await channel.default_exchange.publish(request, requests.name)
            async with requests.iterator(timeout=PATIENCE) as asked:
                message = await anext(asked)
                await message.ack()
            await channel.default_exchange.publish(aio_pika.Message(b"pong"), message.reply_to or "")
            assert (await anext(reply)).body == b"pong"


def _amqpstorm(name: str, **options: Any) -> Play:
    def play(broker: Broker) -> None:
        with channel_of(broker) as channel:
            channel.queue.declare(name, **options)
            channel.basic.publish("hello", name)
            channel.queue.delete(name)

    return play


def _rabbitmq_c(name: str, *options: str) -> Play:
    def play(broker: Broker) -> None:
        tool("amqp-declare-queue", broker, "--queue", name, *options)
        tool("amqp-publish", broker, "--routing-key", name, "--body", "hello")
        assert tool("amqp-get", broker, "--queue", name) == b"hello"
        tool("amqp-delete-queue", broker, "--queue", name)

    return play


# --- Node.js, Java, PHP, Elixir


def _run(command: list[str], directory: Path | None = None) -> None:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, timeout=PATIENCE)
    if done.returncode:
        raise ChildProcessError(done.stdout + done.stderr)


def _amqplib_0_8(broker: Broker) -> None:
    _run([installed(), "old-amqplib.js", str(broker.port)], HERE)


_AMQPLIB = """
import amqp from 'amqplib';
const connection = await amqp.connect('amqp://guest:guest@127.0.0.1:PORT?frameMax=FRAME_MAX');
const channel = await connection.createConfirmChannel();
await channel.assertQueue('amqplib', { durable: true });
channel.sendToQueue('amqplib', Buffer.alloc(20_000));
await channel.waitForConfirms();
channel.ack(await channel.get('amqplib'));
await channel.deleteQueue('amqplib');
await connection.close();
"""


def _amqplib(frame_max: int) -> Play:
    def play(broker: Broker) -> None:
        script = _AMQPLIB.replace("PORT", str(broker.port)).replace("FRAME_MAX", str(frame_max))
        _run([installed(), "--input-type=module", "--eval", script], HERE)

    return play


_RABBITMQ_CLIENT = """
import { Connection } from 'rabbitmq-client';
const url = 'amqp://guest:guest@127.0.0.1:PORT';
const connection = new Connection({ url, frameMax: 4096, retryLow: 60_000, connectionTimeout: 10_000 });
connection.on('error', (error) => { console.error(error); process.exit(1); });
await connection.queueDeclare({ queue: 'rabbitmq-client', durable: true });
await connection.basicGet('rabbitmq-client');
await connection.queueDelete({ queue: 'rabbitmq-client' });
await connection.close();
"""


def _rabbitmq_client(broker: Broker) -> None:
    script = _RABBITMQ_CLIENT.replace("PORT", str(broker.port))
    _run([installed(), "--input-type=module", "--eval", script], HERE)


def _application(title: str) -> Play:
    (found,) = [each for each in applications.APPLICATIONS if each.title == title]
    return lambda broker: _run(found.command(broker.port))


def _credit(broker: Broker) -> None:
    script = str(Path(__file__).with_name("basic_credit.exs"))
    _run(["env", f"ERL_LIBS={SYSTEM.plugins}", require("elixir"), script, str(broker.port)])


def _celery(broker: Broker) -> None:
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", old_celery(Path(directory, "celery")))
        three_tasks(broker.port, is_careful=False, log=Path(directory, "log"))


def _with(argument: str, value: object) -> dict[str, Any]:
    """Return the options of a durable queue with an argument."""
    return {"durable": True, "arguments": {argument: value}}


_QUORUM_TIMEOUT = {"x-queue-type": "quorum", "x-consumer-timeout": 600_000}
TIMEOUT = "rabbitmq4-consumer-timeout"
FRAME_MAX, TRANSIENT = "rabbitmq4-frame-max", "rabbitmq4-transient-queue"
LOCATOR, VERSION = "rabbitmq4-queue-master-locator", "rabbitmq4-queue-version"


def _breaking(name: str, product: str, play: Play, *kinds: str) -> Program:
    return Program(name, product, play, frozenset(kinds))


BREAKING = (
    _breaking("frames-amqplib-0.8", "amqplib 0.8", _amqplib_0_8, FRAME_MAX, TRANSIENT),
    _breaking("frames-amqplib-2", "amqplib 2", _amqplib(4096), FRAME_MAX),
    _breaking("frames-pika", PIKA, _pika(_declared("frames", durable=True, size=9_000), frame_max=4096), FRAME_MAX),
    _breaking("frames-rabbitmq-client", "rabbitmq-client", _rabbitmq_client, FRAME_MAX),
    _breaking("transient-aio-pika", "aiormq", _aio_pika_transient, TRANSIENT),
    _breaking("transient-amqpstorm", "AMQPStorm", _amqpstorm("amqpstorm"), TRANSIENT),
    _breaking("transient-celery", "py-amqp", _celery, TRANSIENT),
    _breaking("transient-elixir", "RabbitMQ", _application("Elixir"), TRANSIENT),
    _breaking("transient-php-amqplib", "AMQPLib", _application("php-amqplib"), TRANSIENT),
    _breaking("transient-rabbitmq-c", "rabbitmq-c", _rabbitmq_c("rabbitmq-c"), TRANSIENT),
    _breaking("transient-spring", "RabbitMQ", _application("Spring Boot 2.7, transient queue"), TRANSIENT),
    _breaking("transient-symfony", "rabbitmq-c", _application("Symfony Messenger"), TRANSIENT),
    _breaking(
        "locator-pika",
        PIKA,
        _pika(_declared("locator", **_with("x-queue-master-locator", "min-masters"))),
        LOCATOR,
    ),
    _breaking("locator-spring", "RabbitMQ", _application("Spring Boot 2.7, anonymous queue"), LOCATOR),
    _breaking("version-kombu", "py-amqp", _kombu("version", {"x-queue-version": 1}), VERSION),
    _breaking("version-pika", PIKA, _pika(_declared("", exclusive=True, arguments={"x-queue-version": 1})), VERSION),
    _breaking(
        "timeout-amqpstorm",
        "AMQPStorm",
        _amqpstorm("timeout", durable=True, arguments={"x-consumer-timeout": 600_000}),
        "rabbitmq4-consumer-timeout",
    ),
    _breaking("size-pika", PIKA, _pika(_declared("size", durable=True, size=LIMIT + 1)), "rabbitmq4-message-size"),
    _breaking("returns-pika", PIKA, _pika(_returned("returns", rejects=True)), "rabbitmq4-delivery-limit"),
    _breaking("credit-erlang", "RabbitMQ", _credit, "rabbitmq4-basic-credit"),
)

HARMLESS = (
    Program("durable-amqplib-2", "amqplib", _amqplib(8192), version="4.3"),
    Program("durable-pika", PIKA, _pika(_declared("durable", durable=True)), version="4.3"),
    Program("durable-rabbitmq-c", "rabbitmq-c", _rabbitmq_c("durable-c", "--durable")),
    Program("exclusive-amqpstorm", "AMQPStorm", _amqpstorm("exclusive", exclusive=True)),
    Program("exclusive-pika", PIKA, _pika(_declared("", exclusive=True, auto_delete=True)), version="4.3"),
    Program("expires-pika", PIKA, _pika(_declared("expires", **_with("x-expires", 60_000)))),
    Program("frames-8192-pika", PIKA, _pika(_declared("frames", durable=True, size=9_000), frame_max=8192)),
    Program("durable-kombu", "py-amqp", _kombu("durable-kombu")),
    Program("headers-kombu", "py-amqp", _headers_bound),
    Program("lazy-pika", PIKA, _pika(_declared("lazy", **_with("x-queue-mode", "lazy")))),
    Program("passive-pika", PIKA, _pika(_passively_declared)),
    Program("prefetch-none-pika", PIKA, _pika(_no_prefetch_of_the_channel)),
    Program("prefetch-pika", PIKA, _pika(_consumed)),
    Program("request-aio-pika", "aiormq", _aio_pika_request, version="4.3"),
    Program(
        "returns-limited-pika",
        PIKA,
        _pika(_returned("limited", rejects=True, limit=12)),
    ),
    Program("returns-nack-pika", PIKA, _pika(_returned("nack", rejects=False))),
    Program("size-16-mib-pika", PIKA, _pika(_declared("size", durable=True, size=LIMIT))),
    Program("size-1-mib-aio-pika", "aiormq", _aio_pika_large),
    Program("stream-pika", PIKA, _pika(_stream_read), version="4.3"),
    Program(
        "timeout-quorum-pika",
        PIKA,
        _pika(_declared("timeout", durable=True, arguments=_QUORUM_TIMEOUT)),
        version="4.3",
    ),
)

PROGRAMS = (*BREAKING, *HARMLESS)

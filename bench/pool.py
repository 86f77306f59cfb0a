"""Clients that connect for each message, 50 ms away from RabbitMQ: with a pool, and without one."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import psutil

from amqproxy.amqp091.frame import BODY, HEADER, encode_frame, encode_method
from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.amqp091.protocol_header import HEADER as PROTOCOL_HEADER
from amqproxy.amqp091.wire import Table
from amqproxy.control import ControlClient
from bench import peers
from bench.far_link import far_link
from bench.peers import Proxy
from bench.report import SUBJECT, Goal, Missing, Row, progress

SECTION = "Clients that connect for each message, 50 ms away"
ROUND_TRIP = 0.05
RATE = 500.0
"""Clients a second."""

SECONDS = 10.0
MOST_CONNECTIONS = 8
UNPOOLED = "without a pool"
PLAIN, DECLARING, CPU = Goal(1 / 20, is_most=True), Goal(1 / 5, is_most=True), Goal(1 / 4, is_most=True)
SLOWEST = Goal(2 * ROUND_TRIP * 1000 + 20, is_most=True)

BODY_BYTES = b"x" * 100
MESSAGE = (
    encode_method(1, BasicPublish(0, "bench", "bench"))
    + encode_frame(HEADER, 1, ContentHeader(len(BODY_BYTES)).encode())
    + encode_frame(BODY, 1, BODY_BYTES)
)
LOGIN = ConnectionStartOk(Table({}), "PLAIN", b"\0guest\0guest", "en_US")


class Step(NamedTuple):
    """Bytes that a client sends, and the method for which it then waits."""

    data: bytes
    answer: type[Method]


def _on_channel(*methods: Method) -> bytes:
    return b"".join([encode_method(1, each) for each in methods])


DECLARATIONS = (
    Step(_on_channel(ExchangeDeclare(0, "bench", "direct", durable=True)), ExchangeDeclareOk),
    Step(_on_channel(QueueDeclare(0, "bench", durable=True)), QueueDeclareOk),
    Step(_on_channel(QueueBind(0, "bench", "bench", "bench")), QueueBindOk),
)


def script(*, declares: bool) -> list[Step]:
    """Return the steps of one client: connect, publish one message with a confirm, close."""
    return [
        Step(PROTOCOL_HEADER, ConnectionStart),
        Step(encode_method(0, LOGIN), ConnectionTune),
        Step(
            encode_method(0, ConnectionTuneOk(2047, 131_072, 0)) + encode_method(0, ConnectionOpen("/")),
            ConnectionOpenOk,
        ),
        Step(_on_channel(ChannelOpen()), ChannelOpenOk),
        *(DECLARATIONS if declares else ()),
        Step(_on_channel(ConfirmSelect()), ConfirmSelectOk),
        Step(MESSAGE, BasicAck),
        Step(_on_channel(ChannelClose(200, "", 0, 0)), ChannelCloseOk),
        Step(encode_method(0, ConnectionClose(200, "", 0, 0)), ConnectionCloseOk),
    ]


class Figures(NamedTuple):
    """Of many clients: how long each took in milliseconds, and the broker's CPU time for each, in milliseconds."""

    times: list[float]
    cpu: float


def measure(rounds: int, scale: float) -> Iterator[Row | str]:
    """Yield rows for clients that only publish, and for clients that declare what they use first."""
    try:
        with ExitStack() as stack:
            node = stack.enter_context(peers.rabbitmq())
            port = stack.enter_context(far_link(node.port, ROUND_TRIP))
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            proxies = [stack.enter_context(_proxy(port, directory, is_pooled=each)) for each in (False, True)]
            asyncio.run(_client(proxies[0].port, script(declares=True)))
            for name, declares, goal in (("publish", False, PLAIN), ("declare and publish", True, DECLARING)):
                yield from _compare(name, goal, node, proxies, directory, scale, declares=declares)
    except Missing as lack:
        yield str(lack)


def _proxy(port: int, directory: Path, *, is_pooled: bool) -> AbstractContextManager[Proxy]:
    """Run a proxy, with a pool or without one."""
    config = directory / f"{is_pooled}.yaml"
    upstream = {"pool": {"upstreams": MOST_CONNECTIONS}} if is_pooled else {}
    config.write_text(json.dumps({"upstream": upstream, "control": {"path": str(directory / f"{is_pooled}.sock")}}))
    return peers.amqproxy(port, config)


def _compare(
    name: str, goal: Goal, node: Proxy, proxies: list[Proxy], directory: Path, scale: float, *, declares: bool
) -> Iterator[Row]:
    rate, seconds = RATE * min(1.0, 2 * scale), SECONDS * min(1.0, 2 * scale)
    found: dict[str, Figures] = {}
    assert node.pid is not None
    for label, proxy in zip((UNPOOLED, SUBJECT), proxies, strict=True):
        progress(f"pool: {name}, {label}, {rate:g} clients a second")
        found[label] = asyncio.run(_crowd(proxy.port, script(declares=declares), rate, seconds, node.pid))
    title = f"{name}, {rate:g} clients a second, median"
    yield Row(
        SECTION, title, "ms", {key: each.times for key, each in found.items()}, (UNPOOLED,), goal, less_is_better=True
    )
    slowest = {key: [_percentile(each.times, 0.99)] for key, each in found.items()}
    yield Row(SECTION, "  p99", "ms", slowest, goal=SLOWEST, less_is_better=True)
    cpu = {key: [each.cpu] for key, each in found.items()}
    yield Row(SECTION, "  CPU time of RabbitMQ for each", "ms", cpu, (UNPOOLED,), CPU, less_is_better=True)
    with ControlClient(directory / "True.sock") as control:
        connections = float(sum(each["connections"] for each in control.ask("pools")["pools"]))
    most = Goal(MOST_CONNECTIONS, is_most=True)
    yield Row(SECTION, "  upstream connections", "", {SUBJECT: [connections]}, goal=most, less_is_better=True)


async def _crowd(port: int, steps: list[Step], rate: float, seconds: float, broker: int) -> Figures:
    """Begin clients at a rate, whether or not the earlier ones have ended."""
    loop = asyncio.get_running_loop()
    process = psutil.Process(broker)
    before, began = _cpu(process), loop.time()
    clients = []
    for number in range(int(rate * seconds)):
        await asyncio.sleep(max(0.0, began + number / rate - loop.time()))
        clients.append(loop.create_task(_client(port, steps)))
    times = await asyncio.gather(*clients)
    return Figures([1000 * each for each in times], 1000 * (_cpu(process) - before) / len(times))


async def _client(port: int, steps: list[Step]) -> float:
    """Carry out the steps; return how many seconds they took, with the opening of the connection."""
    began = monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    frames = FrameReader(frame_max=0)
    for data, answer in steps:
        writer.write(data)
        while True:
            received = await reader.read(65_536)
            if not received:
                raise RuntimeError(f"the connection was closed where {answer.name} was expected")
            arrived = frames.feed(received)
            if any(frame.index == ConnectionClose.index for frame in arrived):
                raise RuntimeError(f"the client was told {arrived[-1].method} where {answer.name} was expected")
            if any(frame.index == answer.index for frame in arrived):
                break
    took = monotonic() - began
    writer.close()
    return took


def _cpu(process: psutil.Process) -> float:
    times = [each.cpu_times() for each in (process, *process.children(recursive=True))]
    return sum(each.user + each.system for each in times)


def _percentile(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]

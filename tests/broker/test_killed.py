"""A broker is killed under load, at any moment: whatever it has confirmed was used, or is there again, in its order."""

import json
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import BODY, Frame, encode_method
from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicDeliver,
    BasicPublish,
    BasicQos,
    ChannelOpen,
    ConfirmSelect,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    Method,
    QueueDeclare,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.wire import Table

pytestmark = pytest.mark.slow

QUEUE = "q"
WINDOW = 200
"""Publishes that are not confirmed yet, at most."""

HOLE = 3
"""One message in so many is held back by the consumer until it has so many others."""


class Gone(Exception):
    """The broker has hung up."""


class Client:
    """One connection with channel 1 open, which blocks."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 30)
        self._reader = FrameReader(frame_max=0)
        self._frames: list[Frame] = []

    def open(self) -> None:
        self.write(HEADER)
        self.next()
        self.send(0, ConnectionStartOk(Table(), "PLAIN", b"\0guest\0guest", "en_US"))
        self.next()
        self.send(0, ConnectionTuneOk(2047, 131_072, 0), ConnectionOpen("/"))
        self.next()
        self.ask(ChannelOpen())
        self.ask(QueueDeclare(queue=QUEUE, durable=True))

    def send(self, channel: int, *methods: Method) -> None:
        self.write(b"".join(encode_method(channel, method) for method in methods))

    def write(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise Gone from error

    def ask(self, method: Method) -> Frame:
        self.send(1, method)
        return self.next()

    def next(self) -> Frame:
        while not self._frames:
            try:
                data = self._socket.recv(65536)
            except OSError as error:
                raise Gone from error
            if not data:
                raise Gone
            self._frames = self._reader.feed(data)[::-1]
        return self._frames.pop()

    def close(self) -> None:
        self._socket.close()


def publish(port: int, first: int, confirmed: set[int]) -> None:
    """Publish numbers from `first` on, and note those that are confirmed, until the broker is gone."""
    with suppress(Gone), closing(Client(port)) as client:
        client.open()
        client.ask(ConfirmSelect())
        sent = low = 0
        while True:
            if sent - low < WINDOW:
                step = random.randint(1, WINDOW // 4)
                bodies = [b"%d" % (first + number) for number in range(sent, sent + step)]
                bodies = [body + b" " * random.choice((0, 0, 5000)) for body in bodies]
                properties = Properties(delivery_mode=2)
                commands = [Command(1, BasicPublish(routing_key=QUEUE), properties, body) for body in bodies]
                client.write(b"".join(command.encode(131_072) for command in commands))
                sent += step
            else:
                ack = client.next().method
                assert isinstance(ack, BasicAck)
                confirmed.update(
                    range(first + (low if ack.multiple else ack.delivery_tag - 1), first + ack.delivery_tag)
                )
                low = ack.delivery_tag


def consume(port: int, used: set[int]) -> None:
    """Consume, acknowledge most at once and some late, and note what was acknowledged, until the broker is gone."""
    with suppress(Gone), closing(Client(port)) as client:
        client.open()
        client.ask(BasicQos(prefetch_count=100))
        client.ask(BasicConsume(queue=QUEUE))
        held: list[tuple[int, int]] = []
        tag = 0
        while True:
            frame = client.next()
            if frame.kind == BODY:
                number = int(bytes(frame.payload))
                if random.randrange(HOLE) == 0 and len(held) < 50:
                    held.append((tag, number))
                    continue
                used.add(number)
                acks = [BasicAck(tag)]
                if len(held) == 50:
                    used.update(each for _, each in held)
                    acks += [BasicAck(each) for each, _ in held]
                    held = []
                client.send(1, *acks)
            elif frame.kind == 1 and isinstance(frame.method, BasicDeliver):
                tag = frame.method.delivery_tag


def found(port: int) -> list[int]:
    """All that is in the queue, which is empty after."""
    with closing(Client(port)) as client:
        client.open()
        return _all(client)


def _all(client: Client) -> list[int]:
    count = client.ask(QueueDeclare(queue=QUEUE, passive=True)).method.message_count
    client.ask(BasicConsume(queue=QUEUE, no_ack=True))
    numbers = []
    while len(numbers) < count:
        frame = client.next()
        if frame.kind == BODY:
            numbers.append(int(bytes(frame.payload)))
    return numbers


@contextmanager
def broker(directory: Path) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    command = [sys.executable, "-m", "amqproxy", "broker", "--listen", "127.0.0.1:0", "--data", str(directory)]
    with subprocess.Popen([*command, "--log-format", "json"], stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        try:
            yield int(json.loads(process.stderr.readline())["address"].rpartition(":")[2]), process
        finally:
            process.kill()


def kill(directory: Path, rounds: int) -> None:
    confirmed: set[int] = set()
    used: set[int] = set()
    first = again = safe = 0
    for turn in range(rounds):
        with broker(directory) as (port, process):
            there = found(port)
            assert there == sorted(set(there))
            assert confirmed - used <= set(there), "lost"
            again += len(there)
            first += 1_000_000
            confirmed, used = set(), set()
            tasks = [threading.Thread(target=publish, args=(port, first, confirmed))]
            if turn % 4:
                tasks.append(threading.Thread(target=consume, args=(port, used)))
            for task in tasks:
                task.start()
            with suppress(subprocess.TimeoutExpired):
                process.wait(random.uniform(0.05, 0.8))
            process.kill()
            for task in tasks:
                task.join()
            safe += len(confirmed)
    assert again
    assert safe


def test_a_few_kills(tmp_path: Path) -> None:
    kill(tmp_path, 3)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_many_kills(tmp_path: Path) -> None:
    kill(tmp_path, 60)

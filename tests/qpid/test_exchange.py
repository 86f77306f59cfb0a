"""Messages between real clients of both protocols, at once: pika on one side, on the other JMS and qpid-python."""

from __future__ import annotations

import ast
import asyncio
import datetime
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aio_pika
import pika
import pytest
from aio_pika.abc import AbstractConnection, AbstractIncomingMessage

from tests.qpid.apache_suite import run_client
from tests.real.class_path import class_path
from tests.real.own import OwnBroker
from tests.real.proxy import Proxy
from tests.real.require import require

pytestmark = [pytest.mark.real, pytest.mark.slow]

PATIENCE = 60.0
WHEN = datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC)
SECONDS = 1_700_000_000
UUID = "3f2504e0-4f89-11d3-9a0c-0305e82c3301"
TEXT = "grüß € \U0001f600"

HEADERS: dict[str, Any] = {
    "boolean": True,
    "byte": -8,
    "short": -1600,
    "int": -70_000,
    "long": -(2**40),
    "float": 0.25,
    "text": "größe",
    "bytes": bytearray(b"\x00\xff"),
    "time": WHEN,
    "nothing": None,
    "map": {"in": {"deep": "er"}},
    "list": ["one", 2, [3.5]],
}
"""Of each type that these clients can send."""

PROPERTIES = {
    "content_type": "text/plain",
    "content_encoding": "utf-8",
    "delivery_mode": 2,
    "priority": 7,
    "correlation_id": "correlation",
    "reply_to": "back",
    "message_id": "not a uuid",
    "type": "a type",
    "user_id": "guest",
    "app_id": "app",
}

COUNT = 2
"""How many messages are sent to a client: one with the headers, by aio-pika, and one with the properties, by pika."""

AS_JMS = [
    {
        "JMSDeliveryMode": "1",
        "JMSPriority": "0",
        "JMSReplyTo": "false",
        "JMSTimestamp": "0",
        "body": "bytes 0001ff",
        "boolean": "Boolean true",
        "byte": "Byte -8",
        "short": "Short -1600",
        "int": "Integer -70000",
        "long": "Long -1099511627776",
        "float": "Float 0.25",
        "text": "String größe",
        "time": "Long 1700000000",
    },
    {
        "JMSCorrelationID": "correlation",
        "JMSDeliveryMode": "2",
        "JMSPriority": "7",
        "JMSReplyTo": "true",
        "JMSTimestamp": "1700000000000",
        "JMSType": "a type",
        "body": f"String {TEXT}",
        "x-amqp-0-9-1.message-id": "String not a uuid",
        "x-jms-type": "String a type",
    },
]
"""The same as JMS has them; it does not show properties of types that it does not know."""

FROM_JMS = {
    "boolean": True,
    "byte": -8,
    "short": -1600,
    "int": -(2**31),
    "long": -(2**63),
    "float": 3.5,
    "double": -1e300,
    "string": "größe",
}


class Leg:
    """Clients of 0-9-1 on a port."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, heartbeat=0))
        self._channel = self._connection.channel()
        for queue in ("to-jms", "from-jms", "to-python", "from-python", "back"):
            self._channel.queue_declare(queue)

    def publish(self, queue: str) -> None:
        """The headers by aio-pika, as pika has fewer types."""
        asyncio.run(self._publish_headers(queue))
        properties = pika.BasicProperties(**PROPERTIES, expiration="600000", timestamp=SECONDS)
        self._channel.basic_publish("", queue, TEXT.encode(), properties)

    async def _publish_headers(self, queue: str) -> None:
        async with await self._connected() as connection, connection.channel() as channel:
            await channel.default_exchange.publish(aio_pika.Message(b"\x00\x01\xff", headers=HEADERS), queue)

    def received(self, queue: str) -> list[AbstractIncomingMessage]:
        """All that is in the queue."""
        return asyncio.run(self._received(queue))

    async def _received(self, name: str) -> list[AbstractIncomingMessage]:
        found = []
        async with await self._connected() as connection, connection.channel() as channel:
            queue = await channel.get_queue(name)
            while (message := await queue.get(fail=False, no_ack=True)) is not None:
                found.append(message)
        return found

    async def _connected(self) -> AbstractConnection:
        return await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{self.port}/")

    def close(self) -> None:
        self._connection.close()


@pytest.fixture(scope="module")
def legs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Leg]]:
    """Straight at the integrated broker, and through the proxy."""
    broker = OwnBroker(tmp_path_factory.mktemp("own"))
    proxy = Proxy(tmp_path_factory.mktemp("proxy"), broker.port)
    legs = [Leg(broker.port), Leg(proxy.port)]
    yield legs
    for leg in legs:
        leg.close()
    for program in (proxy, broker):
        program.kill()
        assert "Traceback" not in program.log


@pytest.mark.once
def test_with_jms(legs: list[Leg]) -> None:
    java = [require("java", package="openjdk-17-jre-headless"), "-Dqpid.amqp.version=0-10"]
    urls = [f"amqp://guest:guest@amqproxy//?brokerlist='tcp://127.0.0.1:{leg.port}'" for leg in legs]
    command = [*java, "-cp", class_path(Path(__file__).parent), "Exchange", str(COUNT), *urls]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8") as client:
        assert client.stdout is not None
        for leg in legs:
            leg.publish("to-jms")
            lines = list(iter(client.stdout.readline, "done\n"))
            assert [_shown(line) for line in lines] == AS_JMS
            _check_came_back(leg.received("back"), time=SECONDS)
            _check_from_jms(leg.received("from-jms"))
        assert client.wait(PATIENCE) == 0


@pytest.mark.once
def test_with_qpid_python(legs: list[Leg]) -> None:
    for leg in legs:
        leg.publish("to-python")
        headers, properties = map(ast.literal_eval, run_client("exchange.py2", leg.port, COUNT).splitlines())
        assert headers["body"] == "\x00\x01\xff"
        assert headers["headers"]["text"] == "u'gr\\xf6\\xdfe'"
        assert headers["headers"]["list"] == "[u'one', 2, [3.5]]"
        assert properties["correlation_id"] == "correlation"
        assert (properties["priority"], properties["delivery_mode"], properties["app_id"]) == (7, 2, "app")
        _check_came_back(leg.received("back"), time=WHEN)
        (sent,) = leg.received("from-python")
        names = (
            "content_type",
            "content_encoding",
            "delivery_mode",
            "priority",
            "correlation_id",
            "reply_to",
            "app_id",
        )
        assert {name: getattr(sent, name) for name in names} == {name: PROPERTIES[name] for name in names}
        assert (sent.message_id, sent.user_id, sent.expiration, sent.body) == (UUID, "guest", 600.0, b"body")
        assert {name: sent.headers[name] for name in FROM_PYTHON} == FROM_PYTHON


FROM_PYTHON = {
    "boolean": True,
    "int": -(2**40),
    "float": 0.25,
    "text": "größe",
    "bytes": b"\x00\xff",
    "nothing": None,
    "time": WHEN,
    "map": {"in": {"deep": 1}},
    "list": [1, "two", [3.0]],
}


def _shown(line: str) -> dict[str, str]:
    """What JMS has of a message; ids that aio-pika makes up are left out."""
    assert "=" in line, line
    found = dict(each.split("=", 1) for each in line.rstrip("\n").split("\t"))
    if found["JMSDeliveryMode"] == "1":
        del found["x-amqp-0-9-1.message-id"]
    return {name: value for name, value in found.items() if value != "null"}


def _check_came_back(messages: list[AbstractIncomingMessage], time: object) -> None:
    """They are as they were sent, but for a `time` among the headers, and ids and times of the one that forwards."""
    headers, properties = messages
    assert {name: headers.headers[name] for name in HEADERS} == HEADERS | {"time": time}
    assert headers.body == b"\x00\x01\xff"
    names = set(PROPERTIES) - {"message_id"}
    assert {name: getattr(properties, name) for name in names} == {name: PROPERTIES[name] for name in names}
    assert (properties.expiration, properties.body) == (600.0, TEXT.encode())


def _check_from_jms(messages: list[AbstractIncomingMessage]) -> None:
    text, *others = messages
    assert {name: text.headers[name] for name in FROM_JMS} == FROM_JMS
    names = ("content_type", "delivery_mode", "priority", "correlation_id", "reply_to", "type", "user_id")
    assert {name: getattr(text, name) for name in names} == {name: PROPERTIES[name] for name in names}
    assert (text.expiration, text.body) == (600.0, TEXT.encode())
    assert text.message_id
    assert text.timestamp is not None
    assert [(each.content_type, each.body) for each in others] == [
        ("application/octet-stream", b"\x00\x01\xff"),
        ("amqp/map", b"\x00\x00\x00\x1b\x00\x00\x00\x02\x06string\x95\x00\x04text\x03int!\xff\xff\xff\xfd"),
        ("jms/stream-message", b"\x06\x00\x00\x00\x07"),
        ("application/java-object-stream", b"\xac\xed\x00\x05t\x00\tan object"),
    ]

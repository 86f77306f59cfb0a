"""Rules with odd values: what `config check` accepts survives a start, clients who come and publish, and a reload.

The values are drawn from the JSON Schema of the config, and some from a box of oddities. A second client, which no rule
is about, must notice nothing.
"""

from __future__ import annotations

import signal
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs
from structlog.typing import EventDict

from amqproxy import app
from amqproxy.amqp091.commands import Command, CommandReader
from amqproxy.amqp091.frame import HEARTBEAT, encode_method
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicPublish,
    BasicQos,
    BasicReject,
    ChannelOpen,
    ConfirmSelect,
    ConnectionClose,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    ExchangeDeclare,
    Method,
    QueueBind,
    QueueDeclare,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.transitions import SERVER
from amqproxy.amqp091.wire import Table
from amqproxy.app.printing import PrintSettings
from amqproxy.configuration.config import Config, ConfigError, Limits, ListenerConfig
from amqproxy.configuration.config_file import load
from amqproxy.configuration.schema import schema
from amqproxy.taps.text import line
from tests.amqp091.tracking import TrackingConnection
from tests.example_count import example_count

SCRIPT = """
def publish(command, context):
    if command.body_size:
        return 5 if context.random() < 0.5 else None

def command(command, context):
    return None
"""

# --- what a config contains

SCHEMA = schema()
DEFINITIONS = SCHEMA["$defs"]
TEXTS = [
    *("", "a", "orders", "x" * 255, "x" * 256, "é" * 128, "*", "!", "!a", "is:", "regex:", "regex:(", "regex:.*"),
    *("topic:#", "topic:", "{user}", "{exchange}.{queue}", "{", "{{}}", "{headers.x}", "{nothing}", "\0", "a\nb", " "),
    *("10KB", "200ms", "100/s", "6000/m", "0s", "-1", "1e400", "9" * 400, "amq.", "amq.direct", "/", "/a/0", "::"),
    *("basic.publish", "queue.*", "10.0.0.0/8", "::1", "0.0.0.0/0", "22:00", "24:00", "+01:00", "mon", "json:loads"),
    *("size > 5", "size", "headers.x == 1", "user == 'guest'", "'a' in tags", "1/0 == 1", "body == ''", "json.a > 5"),
    *("allow anyone to publish", 'deny user "a" to any\notherwise allow', "otherwise deny", "script.py", "😀", "true"),
]
NUMBERS = [
    *(-(2**63), -1, 0, 1, 2, 3, 100, 199, 200, 255, 256, 312, 403, 541, 999, 1000, 3600, 4096, 65535, 65536, 70_000),
    *(2**31, 2**32 - 1, 2**32, 2**53, 2**63 - 1, 2**63, 2**64, 10**30),
    *(0.5, 1.5, 1e-300, 1e-9, 1e9, 1e300, -0.0, float("inf"), float("nan")),
]
NAMES = ["a", "x", "priority", "reply_to", "mandatory", "durable", "prefetch_count", *TEXTS]
ODDITIES = [None, True, False, [], {}, [[]], [""], {"": ""}, {"a": {"b": []}}, {"x" * 256: 1}, *TEXTS, *NUMBERS]

BASES: list[dict[str, Any]] = [
    {"action": "acl", "lines": 'deny user "unknown" to publish'},
    {"action": "allow"},
    {"action": "refuse"},
    {"action": "refuse", "match": {"method": "basic.*"}},
    {"action": "refuse", "match": {"method": "basic.publish"}, "with": "return"},
    {"action": "rewrite", "queue": "q2"},
    {"action": "rewrite", "exchange": {"prefix": "a."}},
    {"action": "rewrite", "consumer_tag": {"suffix": "b"}},
    {"action": "rewrite", "routing_key": {"to": "{user}"}},
    {"action": "rewrite", "headers": {"set": {"a": 1}}},
    {"action": "rewrite", "arguments": {"set": {"a": 1}}},
    {"action": "rewrite", "properties": {"set": {"priority": 1}}},
    {"action": "rewrite", "fields": {"set": {"mandatory": True}}},
    {"action": "rewrite", "body": {"set": "{user}"}},
    {"action": "rewrite", "client_properties": {"set": {"a": 1}}},
    {"action": "rewrite", "tune": {"heartbeat": 10}},
    {"action": "rewrite", "vhost": "/", "trace_context": True},
    {"action": "limit", "of": "messages", "rate": 100},
    {"action": "limit", "of": "bytes", "rate": "1MB"},
    {"action": "limit", "of": "deliveries", "rate": 100},
    {"action": "limit", "of": "commands", "rate": 100},
    {"action": "limit", "of": "messages", "rate": 1, "act": "block"},
    *({"action": "limit", "of": of, "most": 1} for of in ("connections", "channels", "consumers", "queues")),
    *({"action": "limit", "of": of, "most": 1} for of in ("message_size", "prefetch", "unacked")),
    *({"action": "fault", "fault": {"kind": kind}} for kind in ("nack", "return", "drop", "duplicate", "reorder")),
    *({"action": "fault", "fault": {"kind": kind}} for kind in ("cancel", "corrupt", "timeout", "reset", "half_close")),
    {"action": "fault", "fault": {"kind": "close", "code": 406}},
    {"action": "fault", "fault": {"kind": "block", "seconds": 1}},
    {"action": "fault", "fault": {"kind": "delay", "seconds": 0.01}},
    {"action": "fault", "fault": {"kind": "latency", "delay": 0.01}},
    {"action": "fault", "fault": {"kind": "bandwidth", "rate": 1000}},
    {"action": "fault", "fault": {"kind": "slicing", "size": 1}},
    {"action": "fault", "fault": {"kind": "slow_close", "delay": 0.01}},
    {"action": "fault", "fault": {"kind": "limit_data", "octets": 500}},
    {"action": "redact", "headers": ["a"], "body": True},
    {"action": "mirror", "exchange": "copies"},
    {"action": "mirror", "routing_key": {"suffix": ".copy"}, "headers": {"set": {"a": "{user}"}}},
    {"action": "tag", "tags": ["a"]},
    {"action": "log", "text": "{rule} {method} {body} {headers}"},
    {"action": "hold", "timeout": 0.01},
    {"action": "script", "file": "script.py"},
]
KINDS = {
    described["properties"]["action"]["enum"][0]: described
    for described in DEFINITIONS.values()
    if "action" in described.get("properties", {})
}


def drawn(draw: Callable[[st.SearchStrategy[Any]], Any], described: dict[str, Any], depth: int = 0) -> Any:
    """A value for what a schema describes, and now and then another."""
    if depth > 6 or draw(st.integers(0, 14)) == 0:
        return draw(st.sampled_from(ODDITIES))
    while "$ref" in described:
        described = DEFINITIONS[described["$ref"].rpartition("/")[2]]
    if "anyOf" in described:
        return drawn(draw, draw(st.sampled_from(described["anyOf"])), depth + 1)
    if "allOf" in described:
        return drawn(draw, described["allOf"][0], depth + 1)
    if "enum" in described:
        return draw(st.sampled_from(described["enum"]))
    kind = described.get("type")
    kind = draw(st.sampled_from(kind)) if isinstance(kind, list) else kind
    if kind == "object":
        keys: dict[str, Any] = described.get("properties", {})
        chosen = set(draw(st.lists(st.sampled_from(sorted(keys)), max_size=3))) if keys else set()
        found = {key: drawn(draw, keys[key], depth + 1) for key in sorted({*described.get("required", ()), *chosen})}
        if isinstance(described.get("additionalProperties"), dict):
            names = st.sampled_from(
                ["a", "x", "priority", "reply_to", "mandatory", "durable", "prefetch_count", *TEXTS]
            )
            for name in draw(st.lists(names, max_size=2)):
                found[name] = drawn(draw, described["additionalProperties"], depth + 1)
        return found
    if kind == "array":
        items = described.get("items", {})
        return [drawn(draw, items, depth + 1) for _ in range(draw(st.integers(0, 2)))]
    if kind in ("number", "integer"):
        bounds = [described[key] for key in ("minimum", "maximum", "exclusiveMinimum") if key in described]
        return draw(st.sampled_from([*bounds, 1, 2, 5, *NUMBERS]))
    if kind == "boolean":
        return draw(st.booleans())
    if kind == "string":
        return draw(st.sampled_from(TEXTS))
    return None if kind == "null" else draw(st.sampled_from(ODDITIES))


@st.composite
def rules(draw: Callable[[st.SearchStrategy[Any]], Any]) -> dict[str, Any]:
    """One rule: a plain one, some of whose keys are another."""
    base = draw(st.sampled_from(BASES))
    rule: dict[str, Any] = {"name": draw(st.sampled_from(["r", "r", "r", "x" * 300, "é\n", "{user}"]))} | base
    keys = KINDS[base["action"]]["properties"]
    for key in draw(st.lists(st.sampled_from(sorted(keys.keys() - {"action", "name"})), max_size=3)):
        value = drawn(draw, keys[key])
        inner = rule.get(key)
        rule[key] = inner | value if isinstance(inner, dict) and isinstance(value, dict) else value
    return rule


def loaded(directory: Path, rule: dict[str, Any]) -> Config | None:
    """The config with this rule, for odd clients only; None where it is refused, which must be in good order."""
    match = rule.get("match", {})
    if isinstance(match, dict):
        rule = rule | {"match": match | {"client": {"connection_name": "odd"}}}
    (directory / "script.py").write_text(SCRIPT)
    file = directory / "proxy.yaml"
    file.write_text(yaml.safe_dump({"rules": [rule]}))
    try:
        return load(file)
    except ConfigError:
        return None


SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@settings(max_examples=example_count(300), deadline=None, suppress_health_check=SLOW)
@given(rule=rules())
def test_a_config_is_taken_or_refused_in_good_order(
    tmp_path_factory: pytest.TempPathFactory, rule: dict[str, Any]
) -> None:
    loaded(tmp_path_factory.getbasetemp(), rule)


# --- who is there


class Client:
    """A client, who reads what there is."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.connection = TrackingConnection(initial_frame_max=131072)
        self.readers: dict[int, CommandReader] = defaultdict(CommandReader)
        self.received: list[Command] = []

    async def send(self, *methods: Method | bytes, channel: int = 0) -> None:
        for each in methods:
            octets = each if isinstance(each, bytes) else encode_method(channel, each)
            await self.stream.send_all(octets)

    async def read(self, wanted: type[Method], patience: float) -> Any:
        """The next method of that kind; None where none comes. What the proxy sends must be sound."""
        with trio.move_on_after(patience):
            while True:
                for place, command in enumerate(self.received):
                    if isinstance(command.method, wanted):
                        del self.received[: place + 1]
                        return command
                data = await self.stream.receive_some()
                if not data:
                    return None
                for frame in self.connection.readers[SERVER].feed(data):
                    command = self.readers[frame.channel].add(frame) if frame.kind != HEARTBEAT else None
                    if command is not None:
                        self.received.append(command)
        return None


PATIENCE = 0.1
"""Seconds that an odd client waits for an answer, which a rule may well put off for ever."""


def start_ok(name: str) -> ConnectionStartOk:
    properties = Table(
        {
            "connection_name": name,
            "capabilities": {"connection.blocked": True, "consumer_cancel_notify": True, "basic.nack": True},
        }
    )
    return ConnectionStartOk(client_properties=properties, response=b"\0guest\0guest")


async def opened(stream: trio.SocketStream, name: str, patience: float) -> Client:
    """A client with an open connection, and channel 1; or as far as it has come."""
    client = Client(stream)
    await client.send(HEADER)
    await client.read(Method, patience)
    await client.send(start_ok(name))
    tune = await client.read(Method, patience)
    frame_max = getattr(tune.method, "frame_max", 131072) if tune is not None else 131072
    await client.send(ConnectionTuneOk(2047, frame_max, 0))
    await client.send(ConnectionOpen("/"))
    await client.read(Method, patience)
    await client.send(ChannelOpen(), channel=1)
    await client.read(Method, patience)
    return client


MESSAGE = Properties(
    content_type="application/json", headers=Table({"x": 1, "a": "b", "CC": ["c"]}), priority=3, reply_to="back"
)


async def be_odd(port: int) -> None:
    """Come, do this and that, and go."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        with suppress(trio.BrokenResourceError):
            client = await opened(stream, "odd", PATIENCE)
            await client.send(QueueDeclare(queue="q"), ExchangeDeclare(exchange="orders", type="topic"), channel=1)
            await client.send(
                QueueBind(queue="q", exchange="orders", routing_key="#"), BasicQos(0, 5, False), channel=1
            )
            await client.send(ConfirmSelect(), BasicConsume(queue="q", consumer_tag="t"), channel=1)
            for exchange, body in (("", b"{}"), ("orders", b'{"a": 1}'), ("orders", b""), ("orders", b"x" * 5000)):
                method = BasicPublish(exchange=exchange, routing_key="q")
                await client.send(Command(1, method, MESSAGE, body).encode(131072))
            delivery = await client.read(BasicDeliver, PATIENCE)
            if delivery is not None:
                await client.send(BasicAck(delivery.method.delivery_tag), channel=1)
            await client.send(BasicGet(queue="q"), channel=1)
            got = await client.read(BasicGetOk, PATIENCE / 2)
            if got is not None:
                await client.send(BasicReject(got.method.delivery_tag), channel=1)
            await client.send(ConnectionClose(200, "bye", 0, 0))
            await client.read(ConnectionClose, PATIENCE / 5)


class Good:
    """A client that no rule is about, and that checks all that it receives."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.count = 0

    async def check(self) -> None:
        """Publish, have it confirmed, and get it back."""
        self.count += 1
        body = b"good %d" % self.count
        await self.client.send(Command(1, BasicPublish(routing_key="good"), MESSAGE_OF_GOOD, body).encode(131072))
        ack = await self.client.read(BasicAck, 20)
        assert ack is not None
        assert ack.method.delivery_tag == self.count
        await self.client.send(BasicGet(queue="good", no_ack=True), channel=1)
        got = await self.client.read(BasicGetOk, 20)
        assert got is not None
        assert (got.body, got.properties) == (body, MESSAGE_OF_GOOD)


MESSAGE_OF_GOOD = Properties(headers=Table({"a": 1}))


@asynccontextmanager
async def good_client(port: int) -> AsyncIterator[Good]:
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        client = await opened(stream, "good", 20)
        await client.send(QueueDeclare(queue="good", exclusive=True), ConfirmSelect(), channel=1)
        for _ in range(2):
            assert await client.read(Method, 20) is not None
        yield Good(client)


# --- the proxy

EXPECTED = frozenset({"rule failed", "copies dropped"})
"""What may be logged as an error, with a reason: a rule that fails. Rules that log have no reasons."""


async def survive(configs: list[Config], printed: PrintSettings | None = None) -> None:
    """Let a proxy begin with the first config, and go on with the others; with `printed`, it prints what passes."""
    standing = Config(
        listen=(ListenerConfig(address="127.0.0.1:0"),),
        upstream="broker",
        limits=Limits(drain_timeout=0.2, close_timeout=0.1, handshake_timeout=5.0),
        rules=configs[0].rules,
        seed=1,
    )
    found = [msgspec.structs.replace(standing, rules=each.rules) for each in configs[1:]]
    with capture_logs() as log:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(app.run, standing, lambda: found.pop(0), printed)
            await logged(log, "listening", 1)
            port = int(next(each["address"] for each in log if each["event"] == "listening").rpartition(":")[2])
            async with good_client(port) as good:
                await good.check()
                for number in range(len(configs)):
                    await be_odd(port)
                    await good.check()
                    if number < len(configs) - 1:
                        signal.raise_signal(signal.SIGHUP)
                        await logged(log, "rules reloaded", number + 1)
                        await good.check()
            signal.raise_signal(signal.SIGTERM)
    failures = [line for line in log if line["log_level"] == "error" and "reason" in line]
    assert [line for line in failures if line["event"] not in EXPECTED] == []


async def logged(log: list[EventDict], event: str, times: int) -> None:
    with trio.fail_after(20):
        while [each["event"] for each in log].count(event) < times:  # noqa: ASYNC110
            await trio.sleep(0.005)


def check(directory: Path, drawn_rules: list[dict[str, Any]], *, prints: bool) -> None:
    configs = [config for config in (loaded(directory, rule) for rule in drawn_rules) if config is not None]
    if configs:
        trio.run(survive, configs, PrintSettings(render=line) if prints else None)


SOME = st.lists(rules(), min_size=4, max_size=8)


@settings(max_examples=8, deadline=None, suppress_health_check=SLOW)
@given(some=SOME, prints=st.booleans())
def test_what_is_taken_survives(
    tmp_path_factory: pytest.TempPathFactory, some: list[dict[str, Any]], prints: bool
) -> None:
    check(tmp_path_factory.getbasetemp(), some, prints=prints)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@settings(max_examples=example_count(400), deadline=None, suppress_health_check=SLOW)
@given(some=SOME, prints=st.booleans())
def test_what_is_taken_survives_for_long(
    tmp_path_factory: pytest.TempPathFactory, some: list[dict[str, Any]], prints: bool
) -> None:
    check(tmp_path_factory.getbasetemp(), some, prints=prints)

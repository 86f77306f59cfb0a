"""What the names stand for, in every command there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import HEARTBEAT_FRAME, Frame
from amqproxy.amqp091.methods import BasicGet, BasicPublish, ExchangeBind, Method, QueueDeclare
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.amqp091.wire import Table
from amqproxy.conversion.client_name import ALIASES
from amqproxy.rules.context import ChannelInfo, Client, CommandContext
from amqproxy.rules.matching.attributes import (
    GROUPS,
    NAMES,
    SENT_LATER,
    AttributeKind,
    AttributeSource,
    builtin_value,
    client_value,
)
from amqproxy.rules.verdict import Stage
from tests.amqp091.strategies import items, methods, properties
from tests.rules.commands import command

CLIENT_FACTS = Client(
    address="10.0.0.1",
    port=4000,
    listener="0.0.0.0:5672",
    upstream="rabbit:5672",
    tls_subject="CN=a",
    sni="amqp.example",
    user="guest",
    vhost="/",
    properties={"product": "pika", "connection_name": "billing"},
)
PUBLISH = command(
    BasicPublish(exchange="e", routing_key="k"),
    2,
    Properties(priority=3, headers=Table({"n": 1})),
    b'{"a": [1]}',
)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("sender", "client"),
        ("method", "basic.publish"),
        ("exchange", "e"),
        ("destination", None),
        ("queue", None),
        ("routing_key", "k"),
        ("consumer_tag", None),
        ("arguments", None),
        ("fields", {"exchange": "e", "routing_key": "k", "mandatory": False, "immediate": False}),
        ("vhost", "/"),
        ("user", "guest"),
        ("client.address", "10.0.0.1"),
        ("client.port", 4000),
        ("client.properties", {"product": "pika", "connection_name": "billing"}),
        ("client.name", "billing"),
        ("client.connection_name", "billing"),
        ("connection_name", "billing"),
        ("listener", "0.0.0.0:5672"),
        ("upstream", "rabbit:5672"),
        ("tls.subject", "CN=a"),
        ("tls.sni", "amqp.example"),
        ("channel.number", 2),
        ("channel.is_confirming", True),
        ("channel.is_transactional", False),
        ("channel.consumers", 0),
        ("channel.unacked", 0),
        ("time", 12.5),
        ("size", 10),
        ("headers", {"n": 1}),
        ("body", '{"a": [1]}'),
        ("json", {"a": [1]}),
        ("properties.priority", 3),
        ("properties.type", None),
    ],
)
def test_what_a_name_stands_for(path: str, expected: Any) -> None:
    facts = ChannelInfo(number=2, is_confirming=True)
    context = CommandContext(sender=CLIENT, command=PUBLISH, client=CLIENT_FACTS, channel=facts, time=12.5)
    assert NAMES[path].value(context) == expected


def test_what_is_not_known_yet_is_not_there() -> None:
    context = CommandContext(sender=CLIENT, command=command(BasicGet(queue="")), client=Client())
    absent = {path for path, name in NAMES.items() if name.value(context) is None}
    assert {"user", "vhost", "tls.sni", "size", "headers", "body", "json", "exchange"} <= absent
    assert NAMES["queue"].value(context) == ""


@pytest.mark.parametrize("path", ALIASES)
@pytest.mark.parametrize("given", ["connection_name", "clientName", "qpid.client_process"])
def test_a_connection_has_one_name_in_both_protocols_under_all_aliases(path: str, given: str) -> None:
    client = Client(properties={"product": "x", given: "billing"})
    assert client_value(path, client) == client.name == "billing"
    assert client_value(path, Client()) is None
    assert path in SENT_LATER


def test_own_names_are_as_sent_and_all_names_are_in_the_lists() -> None:
    """As docs/rules.md says of `when`."""
    publish = command(BasicPublish(routing_key="q"), 1, Properties(), b"")
    broken = command(QueueDeclare(queue="q\n"))
    for sent in (publish, broken):
        context = CommandContext(sender=CLIENT, command=sent, client=Client())
        assert NAMES["queue"].value(context) != "q"
        assert "q" in NAMES["queues"].value(context)


def test_other_methods() -> None:
    bind = CommandContext(sender=CLIENT, command=command(ExchangeBind(source="s", destination="d")), client=Client())
    assert (NAMES["exchange"].value(bind), NAMES["destination"].value(bind)) == ("s", "d")
    heartbeat = CommandContext(sender=SERVER, command=Command.received([Frame(HEARTBEAT_FRAME)]), client=Client())
    assert NAMES["method"].value(heartbeat) == "heartbeat"
    declare = CommandContext(sender=CLIENT, command=command(QueueDeclare(arguments=Table({"x": 1}))), client=Client())
    assert NAMES["arguments"].value(declare) == {"x": 1}


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000, b'{"a":\xff}'])
def test_a_body_that_is_no_json(body: bytes) -> None:
    context = CommandContext(sender=CLIENT, command=command(BasicPublish(), 1, None, body), client=Client())
    assert NAMES["json"].value(context) is None
    assert isinstance(NAMES["body"].value(context), str)


@given(methods, properties, st.binary(max_size=20))
def test_every_name_has_its_kind_in_every_command(method: Method, properties: Properties, body: bytes) -> None:
    context = CommandContext(sender=CLIENT, command=Command(1, method, properties, body), client=CLIENT_FACTS)
    kinds = {AttributeKind.TEXT: str, AttributeKind.NUMBER: int, AttributeKind.FLAG: bool, AttributeKind.TIME: float}
    for path, name in NAMES.items():
        value = name.value(context)
        if name.kind in kinds:
            assert value is None or isinstance(value, kinds[name.kind]), path
        assert (name.source is AttributeSource.CONTENT) is (name.stage > Stage.METHOD)


@given(items)
def test_builtin_values_are_those_of_json_and_bytes(item: Any) -> None:
    def check(value: Any) -> None:
        if isinstance(value, dict):
            for key, each in value.items():
                key.encode()
                check(each)
        elif isinstance(value, list):
            for each in value:
                check(each)
        elif isinstance(value, str):
            value.encode()
        else:
            assert value is None or isinstance(value, (bool, int, float, bytes))

    check(builtin_value(item.value))


def test_the_words_before_the_dots() -> None:
    assert {"client", "tls", "channel", "properties"} == GROUPS
    assert not GROUPS & set(NAMES)


def test_the_reference_lists_every_name() -> None:
    page = (Path(__file__).parent.parent.parent.parent / "docs" / "rules.md").read_text()
    for path, name in NAMES.items():
        assert path.startswith("properties.") or f"| `{path}` | {name.meaning} |" in page

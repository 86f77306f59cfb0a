"""What an operator may change, and how the rest stays as it was."""

import pytest

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BasicAck, BasicPublish, BasicQos, ConnectionUpdateSecret, QueueDeclare
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.amqp091.wire import Field, Table
from amqproxy.control.message_patch import Base64Bytes, MessagePatch
from amqproxy.rules.context import Client, CommandContext

HEADERS = Table([Field("n", "s", 5), Field("token", "S", "secret"), Field("old", "t", True)])
PUBLISH = Command(1, BasicPublish(exchange="a", routing_key="b"), Properties(headers=HEADERS, priority=1), b"body")
DECLARE = Command(1, QueueDeclare(queue="q", arguments=Table([Field("x-max-length", "l", 5), Field("x", "S", "y")])))


def amended(command, **changes):
    return MessagePatch(**changes).of(command, CommandContext(sender=CLIENT, command=command, client=Client()))


def test_nothing_changes_nothing():
    assert amended(PUBLISH).encode(0) == PUBLISH.encode(0)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"routing_key": "c"}, BasicPublish(exchange="a", routing_key="c")),
        ({"routing_key": 5, "exchange": ""}, BasicPublish(exchange="", routing_key="5")),
        ({"routing_key": "{user}"}, BasicPublish(exchange="a", routing_key="{user}")),
        ({"routing_key": {"base64": "/w=="}}, BasicPublish(exchange="a", routing_key="\udcff")),
        ({"mandatory": True}, BasicPublish(exchange="a", routing_key="b", mandatory=True)),
    ],
)
def test_fields(fields, expected):
    command = amended(PUBLISH, fields=fields)
    assert command.method == expected
    assert (command.properties, command.body) == (PUBLISH.properties, PUBLISH.body)


def test_entries_of_a_table_in_a_method():
    edited = amended(DECLARE, fields={"arguments": {"x": None, "x-queue-type": "quorum", "{}": "{user}"}})
    expected = [Field("x-max-length", "l", 5), Field("x-queue-type", "S", "quorum"), Field("{}", "S", "{user}")]
    assert list(edited.method.arguments.fields) == expected
    assert edited.method.queue == "q"


def test_properties_headers_and_body():
    edited = amended(
        PUBLISH,
        properties={"priority": None, "message_id": 7, "expiration": "60"},
        headers={"old": None, "n": {"base64": "aGk="}, "more": [1, {"a": "b"}]},
        body="other",
    )
    assert (edited.properties.priority, edited.properties.message_id, edited.properties.expiration) == (None, "7", "60")
    headers = edited.properties.headers
    assert headers is not None
    assert list(headers) == ["n", "token", "more"]
    assert headers["n"] == b"hi"
    assert edited.body == b"other"
    assert amended(PUBLISH, body=Base64Bytes("/w==")).body == b"\xff"
    assert amended(PUBLISH, body="").body == b""
    assert amended(Command(1, BasicPublish()), headers={"a": 1}).properties.headers == {"a": 1}


@pytest.mark.parametrize(
    ("command", "changes", "text"),
    [
        (
            PUBLISH,
            {"fields": {"queue": "x"}},
            "`queue` is not a field of basic.publish: there are exchange, routing_key",
        ),
        (Command(1, BasicAck(1)), {"fields": {"delivery_tag": 2}}, "`delivery_tag` cannot be edited"),
        (DECLARE, {"fields": {"no_wait": True}}, "`no_wait` cannot be edited"),
        (DECLARE, {"body": "x"}, "queue.declare has no properties, headers or body"),
        (DECLARE, {"fields": {"arguments": "x"}}, "`arguments` is a table"),
        (DECLARE, {"fields": {"arguments": {"x": 1 << 64}}}, "does not fit"),
        (DECLARE, {"fields": {"durable": "yes"}}, "`durable` must be true or false"),
        (DECLARE, {"fields": {"queue": {"base64": "/w=="}}}, "`queue` must be UTF-8"),
        (DECLARE, {"fields": {"queue": "x" * 256}}, "at most 255 bytes"),
        (DECLARE, {"fields": {"queue": ["x"]}}, "is no text"),
        (Command(1, BasicQos()), {"fields": {"prefetch_count": 65_536}}, "must be a number of 16 bits"),
        (PUBLISH, {"properties": {"prio": 1}}, "`prio` is not a property of a message: there are"),
        (PUBLISH, {"properties": {"priority": "high"}}, "must be a number of 8 bits"),
        (PUBLISH, {"body": Base64Bytes("%")}, "is no base64"),
        (Command(0, ConnectionUpdateSecret()), {"fields": {"new_secret": {}}}, "is no text"),
    ],
)
def test_what_cannot_be(command, changes, text):
    with pytest.raises(ValueError, match=text):
        amended(command, **changes)


def test_what_rules_cover_stays_covered():
    masked = Table([Field("n", "s", 5), Field("token", "S", "***"), Field("old", "t", True)])
    shown = Command(1, PUBLISH.method, Properties(headers=masked, priority=1), b"***")
    change = MessagePatch(
        fields={"routing_key": "c"}, headers={"token": "new", "n": 6, "old": None}, body="secret, too"
    )
    edited = change.of(PUBLISH, CommandContext(sender=CLIENT, command=PUBLISH, client=Client()))
    covered = change.covered(PUBLISH, shown, edited)
    assert edited.properties.headers == {"n": 6, "token": "new"}
    assert edited.body == b"secret, too"
    assert covered.method.routing_key == "c"
    assert covered.properties.headers == {"n": 6, "token": "***"}
    assert covered.body == b"***"
    of_method = MessagePatch().covered(DECLARE, Command(1, QueueDeclare(queue="***")), DECLARE)
    assert of_method.method.queue == "***"

"""What waits, as it is shown."""

import msgspec
import pytest

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BasicPublish, ConnectionUpdateSecret, QueueDeclare
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.control.held_commands import held_command, shown_body
from amqproxy.proxy.interception.waiting_command import WaitingCommand
from amqproxy.rules.verdict import HoldAction, Verdict

PUBLISH = Command(3, BasicPublish(exchange="orders", routing_key="new"), Properties(priority=1), b"0123456789")


def shown(original, **verdict):
    verdict = Verdict(**{"command": original, "hold": HoldAction("look", 60.0, passes_at_timeout=False)} | verdict)
    waiting = WaitingCommand(original, verdict, 0)
    waiting.begin(5, 10.0)
    held = held_command(waiting, CLIENT, session=2, connection="c-p", ahead=1000.0, excerpt=4)
    return msgspec.json.decode(msgspec.json.encode(held))


def test_a_message():
    assert shown(PUBLISH) == {
        "session": 2,
        "number": 5,
        "connection": "c-p",
        "rule": "look",
        "since": 1010.0,
        "until": 1070.0,
        "on_timeout": "refuse",
        "will": "pass",
        "from": "client",
        "channel": 3,
        "method": "basic.publish",
        "arguments": {"exchange": "orders", "routing_key": "new", "mandatory": False, "immediate": False},
        "properties": {"priority": 1},
        "size": 10,
        "body": "0123",
    }


def test_a_method():
    entry = shown(Command(1, QueueDeclare(queue="q")))
    assert entry["arguments"]["queue"] == "q"
    assert not {"properties", "size", "body"} & entry.keys()


def test_what_is_secret_is_not_shown():
    covered = Command(3, BasicPublish(exchange="orders", routing_key="***"), Properties(), b"***")
    entry = shown(PUBLISH, shown=covered)
    assert (entry["arguments"]["routing_key"], entry["body"]) == ("***", "***")
    entry = shown(Command(0, ConnectionUpdateSecret(b"token", "expired")))
    assert entry["arguments"] == {"new_secret": "<masked>", "reason": "expired"}


def test_what_the_rules_have_made_of_it_is_shown():
    assert shown(PUBLISH, command=Command(3, BasicPublish(exchange="other")))["arguments"]["exchange"] == "other"
    refused = shown(PUBLISH, command=None)
    assert (refused["will"], refused["arguments"]["exchange"]) == ("go no further", "orders")


@pytest.mark.parametrize(
    ("body", "excerpt", "expected"),
    [
        (b"", 4, ""),
        (b"text", 4, "text"),
        (b"text", 0, ""),
        ("aäß€".encode(), 4, "aä"),
        ("aäß€".encode(), 6, "aäß"),
        ("aäß€".encode(), 8, "aäß€"),
        (b"a\xc3", 4, {"base64": "YcM="}),
        (b"\xff\xfe\xfd", 2, {"base64": "//4="}),
        ("€".encode(), 2, {"base64": "4oI="}),
    ],
)
def test_bodies(body, excerpt, expected):
    assert shown_body(body, excerpt) == expected

"""Verdicts in words."""

import pytest
from msgspec.structs import replace

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import Scope
from amqproxy.amqp091.methods import BasicPublish, ConnectionBlocked, ConnectionStartOk
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.rules.engine.describe import describe_verdict
from amqproxy.rules.faults.impairments import Bandwidth
from amqproxy.rules.verdict import Answer, Close, HoldAction, Insertion, MirroredCopy, Verdict

PUBLISH = Command(1, BasicPublish(exchange="a"), Properties(priority=1), b"body")


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (Verdict(command=PUBLISH), ()),
        (Verdict(command=None, answer=Answer.NACK), ("refused with basic.nack",)),
        (Verdict(command=None, close=Close(Scope.CHANNEL, 403, "no")), ("refused: channel.close 403 no",)),
        (Verdict(command=PUBLISH.altered(method=BasicPublish(exchange="b"))), ("exchange: 'a' → 'b'",)),
        (Verdict(command=PUBLISH.altered(properties=Properties(priority=2))), ("priority: 1 → 2",)),
        (Verdict(command=PUBLISH.altered(body=b"longer")), ("body: 4 bytes → 6",)),
        (Verdict(command=PUBLISH, delay=0.25), ("delayed by 0.25 s",)),
        (Verdict(command=PUBLISH, hold=HoldAction("h", 30.0)), ("held for up to 30 s",)),
        (Verdict(command=PUBLISH, behind=2), ("put behind 2 more",)),
        (
            Verdict(command=PUBLISH, insertions=(Insertion(CLIENT, Command(0, ConnectionBlocked("x"))),)),
            ("connection.blocked inserted for the client",),
        ),
        (Verdict(command=PUBLISH, mirrored=(MirroredCopy(PUBLISH, "other"),)), ("mirrored to other",)),
        (Verdict(command=PUBLISH, damage=((0, 1),)), ("damaged",)),
        (Verdict(command=PUBLISH, shown=PUBLISH), ("redacted for taps",)),
        (Verdict(command=PUBLISH, logged=(("info", "hello"),)), ("logged (info): hello",)),
    ],
)
def test_words(verdict, words):
    assert describe_verdict(verdict, PUBLISH) == words


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (Verdict(command=None, answer=Answer.NACK), "refused with message.reject"),
        (Verdict(command=None, answer=Answer.RETURN), "returned"),
        (Verdict(command=None, close=Close(Scope.CHANNEL, 403, "no")), "refused: execution.exception 403 no"),
        (Verdict(command=None, close=Close(Scope.CHANNEL, 311, "no")), "refused: execution.exception 506 no"),
        (Verdict(command=None, close=Close(Scope.CONNECTION, 403, "no")), "refused: connection.close 320 no"),
    ],
)
def test_words_about_a_command_of_0_10(verdict: Verdict, words: str) -> None:
    assert describe_verdict(verdict, PUBLISH, is_amqp010=True) == (words,)


def test_an_impairment():
    assert (
        "towards the client"
        in describe_verdict(Verdict(command=PUBLISH, impairments=(Bandwidth(CLIENT, rate=1.0),)), PUBLISH)[0]
    )


def test_secrets_are_not_described():
    start = Command(0, ConnectionStartOk(response=b"\0me\0secret"))
    changed = start.altered(method=replace(start.method, response=b"\0you\0hidden"))
    assert describe_verdict(Verdict(command=changed), start) == ("response: 10 bytes → 11 bytes",)

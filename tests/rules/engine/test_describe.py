"""Verdicts in words."""

import pytest
from msgspec.structs import replace

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import Scope
from amqproxy.amqp091.methods import BasicDeliver, BasicPublish, ConnectionBlocked, ConnectionStartOk
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.rules.amqp010.explanation import AMQP010_WORDS
from amqproxy.rules.engine.describe import describe_verdict
from amqproxy.rules.faults.impairments import Bandwidth
from amqproxy.rules.verdict import Answer, Close, HoldAction, Insertion, MirroredCopy, Verdict

PUBLISH = Command(1, BasicPublish(exchange="a"), Properties(priority=1), b"body")


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (Verdict(command=PUBLISH), ()),
        (Verdict(command=None, close=Close(Scope.CHANNEL, 403, "no")), ("refused: channel.close 403 no",)),
        (Verdict(command=PUBLISH.altered(method=BasicPublish(exchange="b"))), ("exchange: 'a' → 'b'",)),
        (Verdict(command=PUBLISH.altered(properties=Properties(priority=2))), ("priority: 1 → 2",)),
        (Verdict(command=PUBLISH.altered(body=b"longer")), ("body: 4 bytes → 6",)),
        (Verdict(command=PUBLISH, delay=0.25), ("delayed by 0.25 s",)),
        (Verdict(command=PUBLISH, hold=HoldAction("h", 30.0)), ("held for up to 30 s",)),
        (Verdict(command=PUBLISH, behind=2), ("moved behind the next 2",)),
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


ENDED = "403 ACCESS_REFUSED - refused by a rule of the proxy"


@pytest.mark.parametrize(
    ("answer", "confirmed", "unconfirmed"),
    [
        (Answer.NOTHING, "dropped", "dropped"),
        (Answer.ACK, "dropped, and confirmed", "dropped"),
        (Answer.NACK, "refused with basic.nack", f"refused: channel.close {ENDED}"),
        (Answer.RETURN, "returned", "returned"),
    ],
)
def test_what_a_publish_is_answered(answer: Answer, confirmed: str, unconfirmed: str) -> None:
    verdict = Verdict(command=None, answer=answer)
    assert describe_verdict(verdict, PUBLISH, is_confirming=True) == (confirmed,)
    assert describe_verdict(verdict, PUBLISH) == (unconfirmed,)


@pytest.mark.parametrize(
    ("answer", "words"),
    [(Answer.ACK, "dropped, and acknowledged"), (Answer.REJECT, "rejected"), (Answer.REQUEUE, "put back")],
)
def test_what_becomes_of_a_delivery(answer: Answer, words: str) -> None:
    assert describe_verdict(Verdict(command=None, answer=answer), Command(1, BasicDeliver())) == (words,)


@pytest.mark.parametrize(
    ("answer", "awaited", "not_awaited"),
    [
        (Answer.NOTHING, "dropped", "dropped"),
        (Answer.ACK, "dropped, and accepted", "dropped"),
        (Answer.NACK, "refused with message.reject", f"refused: execution.exception {ENDED}"),
        (Answer.RETURN, "returned: message.reject, unroutable", "dropped"),
    ],
)
def test_what_a_transfer_is_answered(answer: Answer, awaited: str, not_awaited: str) -> None:
    verdict = Verdict(command=None, answer=answer)
    assert describe_verdict(verdict, PUBLISH, is_confirming=True, words=AMQP010_WORDS) == (awaited,)
    assert describe_verdict(verdict, PUBLISH, words=AMQP010_WORDS) == (not_awaited,)


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (Verdict(command=None, close=Close(Scope.CHANNEL, 403, "no")), "refused: execution.exception 403 no"),
        (Verdict(command=None, close=Close(Scope.CHANNEL, 311, "no")), "refused: execution.exception 506 no"),
        (Verdict(command=None, close=Close(Scope.CONNECTION, 403, "no")), "refused: connection.close 320 no"),
    ],
)
def test_words_about_a_command_of_0_10(verdict: Verdict, words: str) -> None:
    assert describe_verdict(verdict, PUBLISH, words=AMQP010_WORDS) == (words,)


def test_an_impairment():
    assert (
        "towards the client"
        in describe_verdict(Verdict(command=PUBLISH, impairments=(Bandwidth(CLIENT, rate=1.0),)), PUBLISH)[0]
    )


def test_secrets_are_not_described():
    start = Command(0, ConnectionStartOk(response=b"\0me\0secret"))
    changed = start.altered(method=replace(start.method, response=b"\0you\0hidden"))
    assert describe_verdict(Verdict(command=changed), start) == ("response: 10 bytes → 11 bytes",)

"""Commands of our own."""

from __future__ import annotations

import pytest

from amqproxy.amqp010.commands import MessageAccept, MessageCancel, MessageReject, MessageRelease, MessageTransfer
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.session import Session
from amqproxy.amqp010.subscription import Subscription
from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BasicCancel, BasicDeliver, BasicPublish, BasicQos, Method
from amqproxy.amqp091.properties import Properties
from amqproxy.conversion.inexpressible import Inexpressible
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp010.interception.answers import answer_to, inserted
from amqproxy.rules.verdict import Answer, Insertion, Verdict

SEVENTH = SequenceSet([(7, 7)])


@pytest.mark.parametrize(
    ("sender", "answer", "kind"),
    [
        (CLIENT, Answer.ACK, MessageAccept),
        (CLIENT, Answer.NACK, MessageReject),
        (CLIENT, Answer.RETURN, MessageReject),
        (CLIENT, Answer.NOTHING, type(None)),
        (SERVER, Answer.ACK, MessageAccept),
        (SERVER, Answer.REJECT, MessageReject),
        (SERVER, Answer.REQUEUE, MessageRelease),
    ],
)
def test_answers(sender: Peer, answer: Answer, kind: type) -> None:
    verdict = Verdict(command=None, answer=answer)
    found = answer_to(sender, MessageTransfer("x", 0, 0), 7, verdict)
    assert type(found) is kind
    assert getattr(found, "transfers", SEVENTH) == SEVENTH
    assert answer_to(sender, MessageTransfer("x", 1, 0), 7, verdict) is None


def insertion(to: Peer, method: Method) -> Insertion:
    return Insertion(to, Command(1, method, Properties(priority=3), b"hello"))


def test_what_rules_want_sent() -> None:
    published = inserted(insertion(SERVER, BasicPublish(exchange="x", routing_key="k")), None)
    assert published.method == MessageTransfer("x", 1, 0)
    assert (published.delivery_properties.routing_key, published.delivery_properties.priority) == ("k", 3)
    assert (published.properties.content_length, published.body) == (5, b"hello")
    session = Session(b"s")
    session.subscriptions["t"] = Subscription("t", "q", (0, 0))
    delivered = inserted(insertion(CLIENT, BasicDeliver("t", 0, True, "x", "k")), session)
    assert delivered.method == MessageTransfer("t", 0, 0)
    assert delivered.delivery_properties.redelivered
    assert inserted(insertion(SERVER, BasicCancel("t")), None).method == MessageCancel("t")


@pytest.mark.parametrize(
    "wanted",
    [insertion(SERVER, BasicQos(0, 1)), insertion(CLIENT, BasicDeliver("t")), insertion(CLIENT, BasicCancel("t"))],
)
def test_what_0_10_does_not_have(wanted: Insertion) -> None:
    with pytest.raises(Inexpressible):
        inserted(wanted, None)

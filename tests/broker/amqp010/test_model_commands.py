"""Exchanges, queues, bindings and what is asked about them. Sections 10.5 and 10.6."""

from __future__ import annotations

import pytest

from amqproxy.amqp010.commands import (
    ExchangeBind,
    ExchangeBound,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeQuery,
    ExchangeUnbind,
    MessageCancel,
    MessageReject,
    MessageRelease,
    MessageSubscribe,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueQuery,
)
from amqproxy.amqp010.controls import SessionDetach
from amqproxy.amqp010.methods import Command
from amqproxy.amqp010.properties import DeliveryProperties, MessageProperties
from amqproxy.amqp010.results import ExchangeBoundResult, ExchangeQueryResult, QueueQueryResult
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.wire import Map
from amqproxy.amqp091.methods import BasicGet, BasicReject, ChannelClose, Method
from amqproxy.broker.broker import Broker
from tests.broker.amqp010.client import Client010, Session010
from tests.broker.client import connected


@pytest.fixture
def session() -> Session010:
    session = Client010(Broker()).open().session()
    session.declare("q")
    return session


def count(session: Session010, queue: str) -> int:
    return int(session.call(QueueQuery(queue)).message_count)


def test_exchanges_of_each_type(session: Session010) -> None:
    for type_, key, fits in (("direct", "k", "k"), ("fanout", "", "any"), ("topic", "a.#", "a.b.c")):
        session.declare(f"q {type_}")
        session.call(ExchangeDeclare(f"x {type_}", type_))
        session.bind(f"q {type_}", f"x {type_}", key)
        session.transfer(b"", fits, f"x {type_}")
        assert count(session, f"q {type_}") == 1
    session.bind("q", "amq.match", "b", {"x-match": "any", "a": 1, "b": 2})
    session.transfer(b"", "", "amq.match", message=MessageProperties(application_headers=Map({"b": 2})))
    session.transfer(b"", "", "amq.match", message=MessageProperties(application_headers=Map({"b": 3})))
    assert count(session, "q") == 1


def test_an_exchange_is_asked_about(session: Session010) -> None:
    session.call(ExchangeDeclare("x", "topic", "amq.fanout", durable=True, arguments=Map({"k": 1})))
    assert session.call(ExchangeQuery("x")) == ExchangeQueryResult("topic", True, False, Map({"k": 1}))
    assert session.call(ExchangeQuery("none")).not_found
    assert session.call(ExchangeQuery()).type == "direct"


def test_a_queue_is_asked_about(session: Session010) -> None:
    session.call(QueueDeclare("d", "amq.fanout", durable=True, arguments=Map({"qpid.max_count": 5})))
    expected = QueueQueryResult("d", "amq.fanout", True, False, False, Map({"qpid.max_count": 5}), 0, 0)
    assert session.call(QueueQuery("d")) == expected
    assert session.call(QueueQuery("none")) == QueueQueryResult()


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (ExchangeBound("amq.direct", "q", "k"), ExchangeBoundResult()),
        (ExchangeBound("amq.direct", "q"), ExchangeBoundResult()),
        (ExchangeBound("amq.direct", None, "k"), ExchangeBoundResult()),
        (ExchangeBound("none", "q"), ExchangeBoundResult(exchange_not_found=True)),
        (ExchangeBound("amq.direct", "none"), ExchangeBoundResult(queue_not_found=True)),
        (ExchangeBound("none", "none"), ExchangeBoundResult(exchange_not_found=True, queue_not_found=True)),
        (ExchangeBound("amq.direct", "other"), ExchangeBoundResult(queue_not_matched=True)),
        (ExchangeBound("amq.direct", "q", "wrong"), ExchangeBoundResult(key_not_matched=True)),
        (ExchangeBound("amq.direct", "q", "k", Map({"a": 1})), ExchangeBoundResult()),
        (ExchangeBound("amq.direct", "q", "k", Map({"a": 2})), ExchangeBoundResult(args_not_matched=True)),
        (ExchangeBound("", "q", "q"), ExchangeBoundResult()),
    ],
)
def test_bindings_are_asked_about(session: Session010, question: Command, answer: ExchangeBoundResult) -> None:
    session.declare("other")
    session.bind("q", "amq.direct", "k", {"a": 1})
    assert session.call(question) == answer


def test_a_binding_is_known_by_its_key(session: Session010) -> None:
    session.bind("q", "amq.match", "b", {"x-match": "all", "a": 1})
    session.bind("q", "amq.match", "b", {"x-match": "all", "a": 2})
    assert len(session.client.broker.vhosts["/"].exchanges["amq.match"].bindings) == 1
    session.call(ExchangeUnbind("q", "amq.match", "b"))
    assert session.client.broker.vhosts["/"].exchanges["amq.match"].bindings == {}


def test_what_is_rejected_or_orphaned_goes_to_the_alternate_exchange(session: Session010) -> None:
    session.bind("q", "amq.fanout")
    session.call(QueueDeclare("with", "amq.fanout"))
    session.transfer(b"rejected", "with")
    session.transfer(b"orphaned", "with")
    session.subscribe("with", "d", messages=1)
    session.call(MessageReject(SequenceSet.of([session.messages[0][0]]), 0))
    assert count(session, "q") == 1
    other = Client010(session.client.broker).open().session(1, b"other")
    other.call(QueueDelete("with"))
    assert [each.body for each in session.client.broker.vhosts["/"].queues["q"]] == [b"rejected", b"orphaned"]


def test_exclusive_queues_are_the_sessions(session: Session010) -> None:
    session.call(QueueDeclare("goes", exclusive=True, auto_delete=True))
    session.call(QueueDeclare("stays", exclusive=True))
    other = Client010(session.client.broker).open().session(1, b"other")
    for name in ("goes", "stays"):
        assert other.client.session(2, name.encode()).fault(QueuePurge(name))[0] == 405
        assert other.call(QueueQuery(name)).exclusive
    session.client.connection.lose(session.client.now)
    assert other.call(QueueQuery("goes")).queue is None
    assert other.call(QueueQuery("stays")).exclusive


def sessions(session: Session010, count: int) -> list[Session010]:
    """Further sessions, each on a connection of its own."""
    broker = session.client.broker
    return [Client010(broker).open().session(1, b"other %d" % number) for number in range(count)]


def test_an_exclusive_queue_is_taken_up_again(session: Session010) -> None:
    """As Broker-J 9.2: whoever subscribes first has it; to declare it again is not enough."""
    session.call(QueueDeclare("sub", durable=True, exclusive=True))
    first, second, third, late = sessions(session, 4)
    assert third.fault(QueueDeclare("sub", durable=True, exclusive=True))[0] == 405
    session.client.connection.lose(session.client.now)
    for each in (first, second):
        each.call(QueueDeclare("sub", durable=True, exclusive=True))
    first.call(QueueDeclare("sub", passive=True, exclusive=True))
    second.subscribe("sub")
    assert first.fault(MessageSubscribe("sub", "d", 0, 0))[0] == 405
    second.transfer(b"x", "sub")
    assert second.got() == [b"x"]
    second.call(MessageCancel("d"))
    assert late.fault(QueueDeclare("sub", durable=True, exclusive=True))[0] == 405


def test_a_queue_may_go_with_its_connection(session: Session010) -> None:
    """A temporary queue of JMS outlives its session: the client asks for it with these arguments."""
    arguments = Map({"qpid.exclusivity_policy": "CONNECTION", "qpid.lifetime_policy": "DELETE_ON_CONNECTION_CLOSE"})
    session.call(QueueDeclare("temporary", exclusive=True, auto_delete=True, arguments=arguments))
    second = session.client.session(2, b"second")
    (other,) = sessions(session, 1)
    session.control(SessionDetach(session.name))
    second.transfer(b"x", "temporary")
    second.subscribe("temporary")
    assert second.got() == [b"x"]
    second.call(MessageCancel("d"))
    second.bind("temporary", "amq.direct", "k")
    second.call(ExchangeUnbind("temporary", "amq.direct", "k"))
    assert second.call(QueueQuery("temporary")).exclusive
    assert other.fault(MessageSubscribe("temporary", "d", 0, 0))[0] == 405
    session.client.connection.lose(session.client.now)
    (last,) = sessions(session, 1)
    assert last.call(QueueQuery("temporary")).queue is None


@pytest.mark.parametrize("is_by_subscription", [False, True])
def test_a_no_local_queue_takes_nothing_of_its_owners_connection(session: Session010, is_by_subscription: bool) -> None:
    """qpid_tests.broker_0_10.message test_no_local, _awkward and _exclusive_subscribe."""
    mine = {} if is_by_subscription else {"exclusive": True}
    session.declare("mine", auto_delete=True, arguments=Map({"no-local": "true"}), **mine)
    session.subscribe("mine", exclusive=is_by_subscription)
    session.bind("mine", "amq.fanout")
    second = session.client.session(2, b"second")
    (other,) = sessions(session, 1)
    for _ in range(3):  # the later ones of their kind are known
        for each, body in ((session, b"local"), (second, b"local too"), (other, b"foreign")):
            each.transfer(body, "mine")
            each.transfer(body, "", "amq.fanout")
            assert each.take().exception is None
    assert session.got() == 6 * [b"foreign"]
    assert count(session, "mine") == 0


def test_messages_that_are_out_when_their_queue_goes_reach_the_alternate_exchange(session: Session010) -> None:
    """With Broker-J 9.2 two reach it at once, and the others once their holder gives them back or ends."""
    session.bind("q", "amq.fanout")
    session.call(QueueDeclare("with", "amq.fanout"))
    for number in range(5):
        session.transfer(b"%d" % number, "with")
    holder, deleter = sessions(session, 2)
    holder.subscribe("with", messages=3)
    holder.take()
    held = [position for position, _ in holder.messages]
    assert len(held) == 3
    deleter.call(QueueDelete("with"))
    holder.client.tick()
    assert holder.take().exception is None
    assert count(session, "q") == 2
    holder.call(MessageRelease(SequenceSet.of(held[:1])))
    assert count(session, "q") == 3
    holder.client.connection.lose(session.client.now)
    holder.client.rest()
    bodies = [each.body for each in session.client.broker.vhosts["/"].queues["q"]]
    assert sorted(bodies) == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("outcome", [BasicReject(1, False), BasicReject(1, True), ChannelClose(200, "", 0, 0)])
def test_so_do_those_that_a_client_of_0_9_1_holds(session: Session010, outcome: Method) -> None:
    session.bind("q", "amq.fanout")
    session.call(QueueDeclare("with", "amq.fanout"))
    session.transfer(b"held", "with")
    holder = connected(session.client.broker)
    holder.send(1, BasicGet(queue="with"))
    session.call(QueueDelete("with"))
    assert count(session, "q") == 0
    holder.send(1, outcome)
    assert count(session, "q") == 1


def test_priorities_lie_around_the_middle(session: Session010) -> None:
    """Broker-J 9.2 and Qpid's C++ broker put them there; a message without one has the priority 4."""
    session.declare("p", arguments=Map({"x-qpid-priorities": 4}))
    for priority in (2, 4, 9, 4, None, 5, 6):
        session.transfer(b"%d" % (priority or 0), delivery=DeliveryProperties(routing_key="p", priority=priority))
    session.subscribe("p")
    assert session.got() == [b"9", b"6", b"5", b"4", b"4", b"0", b"2"]


def test_a_purge_empties(session: Session010) -> None:
    session.transfer(b"x")
    session.call(QueuePurge("q"))
    assert count(session, "q") == 0


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (ExchangeDeclare("amq.mine", "direct"), 530),
        (ExchangeDeclare("qpid.mine", "direct"), 530),
        (ExchangeDeclare("", "direct"), 542),
        (ExchangeDeclare("x", "nonsense"), 404),
        (ExchangeDeclare("none", "direct", passive=True), 404),
        (ExchangeDeclare("amq.direct", "topic"), 530),
        (ExchangeDeclare("x", "direct", "none"), 404),
        (ExchangeDelete("none"), 404),
        (ExchangeDelete("amq.direct"), 530),
        (ExchangeDelete("alternate"), 530),
        (ExchangeDelete("bound", if_unused=True), 406),
        (ExchangeBind("q", "", "k"), 542),
        (ExchangeBind("q", "none", "k"), 404),
        (ExchangeBind("none", "amq.direct", "k"), 404),
        (ExchangeUnbind("q", "amq.direct", "none"), 404),
        (QueueDeclare("amq.mine"), 530),
        (QueueDeclare(""), 542),
        (QueueDeclare("none", passive=True), 404),
        (QueueDeclare("x", "none"), 404),
        (QueueDeclare("q", "amq.fanout"), 530),
        (QueueDeclare("q", exclusive=True), 405),
        (QueueDelete("q", if_empty=True), 406),
        (QueueDelete("none"), 404),
        (QueuePurge("none"), 404),
    ],
)
def test_what_is_refused(session: Session010, command: Command, code: int) -> None:
    session.call(ExchangeDeclare("alternate", "fanout"))
    session.call(ExchangeDeclare("bound", "fanout", "alternate"))
    session.bind("q", "bound")
    session.transfer(b"x")
    assert session.fault(command)[0] == code


def test_declaring_again_ignores_what_does_not_fit(session: Session010) -> None:
    session.call(QueueDeclare("q", durable=True, auto_delete=True, arguments=Map({"x": 1})))
    session.call(ExchangeDeclare("amq.direct", "direct", durable=False))
    assert not session.client.broker.vhosts["/"].queues["q"].durable

"""Which method a close is about."""

from __future__ import annotations

from amqproxy.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicPublish,
    BasicQos,
    ChannelClose,
    ConnectionClose,
    ExchangeBind,
    Method,
    QueueDeclare,
)
from amqproxy.taps.trace.amqp091.causes import MAX_RECENT, RecentMethods, named_method, only_cause
from amqproxy.taps.trace.budget import Budget
from amqproxy.taps.trace.requests import PendingRequests

ACK = ChannelClose(406, "PRECONDITION_FAILED - unknown delivery tag 8", 60, 80)
PUBLISH = ChannelClose(404, "NOT_FOUND - no exchange 'x' in vhost '/'", 60, 40)
DECLARE = ChannelClose(404, "NOT_FOUND - no queue 'q' in vhost '/'", 50, 10)


def recent(*methods: Method, memory: int = 1_000_000) -> RecentMethods:
    made = RecentMethods(Budget(memory))
    for method in methods:
        made.add(method, 20)
    return made


def test_the_method_that_a_close_names() -> None:
    assert named_method(ACK) == "basic.ack"
    assert named_method(ChannelClose(541, "INTERNAL_ERROR")) is None


def test_a_name_counts_where_the_text_gives_it_its_noun() -> None:
    sent = BasicPublish(exchange="x"), BasicPublish(exchange="/")
    assert recent(*sent).causes(PUBLISH) == [sent[0]]
    binds = ExchangeBind(destination="a", source="x"), ExchangeBind(destination="b", source="y")
    assert recent(*binds).causes(ChannelClose(404, "NOT_FOUND - no exchange 'x' in vhost '/'", 40, 30)) == [binds[0]]


def test_what_was_carried_out_is_no_cause() -> None:
    qos = BasicQos()
    methods = recent(BasicPublish(exchange="y"), qos, BasicPublish(exchange="z"))
    methods.carried_out(qos)
    assert methods.causes(ChannelClose(403, "ACCESS_REFUSED", 60, 40)) == [BasicPublish(exchange="z")]


def test_what_was_forgotten_may_be_the_cause() -> None:
    methods = recent(BasicPublish(exchange="x", routing_key="a"), *map(BasicAck, range(MAX_RECENT - 1)))
    assert methods.causes(PUBLISH) is not None
    methods.add(BasicPublish(exchange="x", routing_key="b"), 20)
    assert methods.causes(PUBLISH) is None


def test_what_is_too_large_to_remember_may_be_the_cause() -> None:
    methods = recent(memory=10_000)
    methods.add(BasicPublish(exchange="y"), 100_000)
    methods.add(BasicPublish(exchange="y"), 20)
    assert methods.causes(PUBLISH) is None


def test_publishes_that_are_just_alike_take_one_place() -> None:
    publish = BasicPublish(exchange="x")
    assert recent(*[publish] * (MAX_RECENT + 1)).causes(PUBLISH) == [publish]


def test_the_first_ack_of_an_unknown_tag_is_the_cause_however_long_ago_it_was() -> None:
    methods = recent()
    methods.refuse(BasicAck(8))
    methods.refuse(BasicAck(8, True))
    for tag in range(MAX_RECENT * 2):
        methods.add(BasicAck(tag), 20)
    assert methods.causes(ACK) == [BasicAck(8)]


def test_of_requests_it_is_the_oldest_without_a_reply() -> None:
    declares = QueueDeclare(queue="a"), QueueDeclare(queue="b")
    methods, pending = recent(*declares), PendingRequests(Budget(100_000))
    for each in declares:
        pending.add(0, each)
    assert methods.causes(ChannelClose(406, "PRECONDITION_FAILED", 50, 10), pending) == [declares[0]]
    consumes = BasicConsume(queue="a"), BasicConsume(queue="b")
    methods = recent(*consumes)
    for each in consumes:
        pending.add(0, each)
    assert methods.causes(ChannelClose(406, "PRECONDITION_FAILED", 60, 20), pending) == list(consumes)


def test_the_cause_is_none_if_any_channel_may_have_another() -> None:
    one, other = BasicPublish(exchange="x"), BasicPublish(exchange="y")
    assert only_cause([[one], []]) is one
    assert only_cause([[one], [other]]) is None
    assert only_cause([[one], None]) is None


def test_a_method_of_the_connection_is_of_no_channel() -> None:
    assert recent(BasicAck(8)).causes(ConnectionClose(530, "NOT_ALLOWED", 10, 40)) == []


def test_after_a_loss_no_cause_is_known() -> None:
    methods = recent(BasicAck(8))
    methods.lose()
    assert methods.causes(ACK) is None
    assert methods.causes(DECLARE) is None

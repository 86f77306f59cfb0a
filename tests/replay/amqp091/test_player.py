"""What a player does where a live broker goes another way than the recorded one, and where clients need each other."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.frame import HEARTBEAT_FRAME, encode_method
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStartOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
)
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.amqp091.wire import Table
from amqproxy.capture.decoded import SkippedBytes
from amqproxy.comparison.difference import DifferenceKind, SentOtherwise
from amqproxy.replay.replay_copy import Order
from amqproxy.replay.result import ReplayResult
from amqproxy.replay.traffic_log import TrafficLog
from amqproxy.testing.local_broker import LocalBroker
from tests.replay.playing import CAPTURES, broker, played, steps_in, texts
from tests.replay.recordings import MILLISECOND, Recording, message


def play(recording: Recording, **options: object) -> ReplayResult:
    with broker() as url:
        return played(recording.steps(), url, **options)  # type: ignore[arg-type]


def opened(*streams: int) -> Recording:
    """Connections with one channel each."""
    recording = Recording()
    for stream in streams:
        recording.open(stream)
        recording.open_channel(stream, 1)
    return recording


def remote_call(reply_to: str, given: str) -> Recording:
    """A client that calls a server on another connection, ten times; it is given a name for replies to come to."""
    recording = opened(0, 1)
    recording.ask(0, 1, QueueDeclare(queue="rpc"), QueueDeclareOk("rpc", 0, 0))
    recording.ask(0, 1, BasicConsume(queue="rpc", consumer_tag="server"), BasicConsumeOk("server"))
    if reply_to == "":
        recording.ask(1, 1, QueueDeclare(queue="", exclusive=True), QueueDeclareOk(given, 0, 0))
    consume = BasicConsume(queue=given if reply_to == "" else reply_to, no_ack=True)
    recording.ask(1, 1, consume, BasicConsumeOk("amq.ctag-recorded"))
    for number in range(1, 11):
        body = b"%d" % number
        asked = reply_to or given
        recording.client(1, 1, message(BasicPublish(routing_key="rpc"), body, reply_to=asked))
        deliver = BasicDeliver("server", number, routing_key="rpc")
        recording.server(0, 1, message(deliver, body, reply_to=given))
        recording.client(0, 1, message(BasicPublish(routing_key=given), body * 2), BasicAck(number))
        answer = BasicDeliver("amq.ctag-recorded", number, routing_key=given)
        recording.server(1, 1, message(answer, body * 2))
    recording.close(1)
    recording.close(0)
    return recording


@pytest.mark.parametrize(
    ("reply_to", "given"),
    [("", "amq.gen-recorded"), ("amq.rabbitmq.reply-to", "amq.rabbitmq.reply-to.g1.recorded==")],
    ids=["server-named queue", "direct reply-to"],
)
def test_two_connections_that_need_each_other_find_each_other(reply_to: str, given: str) -> None:
    result = play(remote_call(reply_to, given))
    assert texts(result) == []
    assert result.sent == (44 if reply_to == "" else 43)


def test_commands_that_are_sent_otherwise_are_reported_with_the_names_of_both() -> None:
    sent: list[SentOtherwise] = []
    result = play(remote_call("", "amq.gen-recorded"), on_sent=sent.append)
    assert result.is_same
    changed = {(each.method, change.field, change.before) for each in sent for change in each.changes}
    assert changed == {
        ("basic.consume", "queue", "amq.gen-recorded"),
        ("basic.publish", "properties.reply_to", "amq.gen-recorded"),
        ("basic.publish", "routing_key", "amq.gen-recorded"),
    }
    live = {change.after for each in sent for change in each.changes}
    assert len(live) == 1
    assert "amq.gen-recorded" not in live


def competing(last: BasicAck) -> Recording:
    """Two consumers, each with one message at a time; the second got the first message, and rejected it."""
    recording = opened(0, 1)
    recording.ask(0, 1, QueueDeclare(queue="work"), QueueDeclareOk("work", 0, 0))
    for stream in (0, 1):
        recording.ask(stream, 1, BasicQos(prefetch_count=1), BasicQosOk())
        recording.ask(stream, 1, BasicConsume(queue="work", consumer_tag="c"), BasicConsumeOk("c"))
    for body in (b"one", b"two", b"three", b"four"):
        recording.client(0, 1, message(BasicPublish(routing_key="work"), body))
    recording.server(1, 1, message(BasicDeliver("c", 1, routing_key="work"), b"one"))
    recording.server(0, 1, message(BasicDeliver("c", 1, routing_key="work"), b"two"))
    recording.client(1, 1, BasicReject(1, requeue=False))
    recording.server(1, 1, message(BasicDeliver("c", 2, routing_key="work"), b"three"))
    recording.client(1, 1, last)
    recording.client(0, 1, BasicAck(1))
    recording.server(0, 1, message(BasicDeliver("c", 2, routing_key="work"), b"four"))
    recording.client(0, 1, BasicNack(2, requeue=False))
    recording.ask(0, 1, BasicCancel("c"), BasicCancelOk("c"))
    recording.ask(1, 1, BasicCancel("c"), BasicCancelOk("c"))
    recording.ask(0, 1, QueueDelete(queue="work"), QueueDeleteOk(0))
    recording.close(0)
    recording.close(1)
    return recording


@pytest.mark.parametrize("last", [BasicAck(2), BasicAck(0, multiple=True)], ids=["its tag", "all"])
def test_messages_that_go_to_another_consumer_are_settled_as_they_were(last: BasicAck) -> None:
    """Our broker gives the first message to the consumer that came first: it is still "one" that is rejected."""
    result = play(competing(last))
    assert texts(result) == []


def test_an_acknowledgement_of_several_is_one_again() -> None:
    recording = opened(0)
    recording.ask(0, 1, QueueDeclare(queue="q"), QueueDeclareOk("q", 0, 0))
    recording.ask(0, 1, BasicConsume(queue="q", consumer_tag="c"), BasicConsumeOk("c"))
    for number in range(1, 6):
        recording.client(0, 1, message(BasicPublish(routing_key="q"), b"%d" % number))
    for number in range(1, 6):
        recording.server(0, 1, message(BasicDeliver("c", number, routing_key="q"), b"%d" % number))
    recording.client(0, 1, BasicAck(4, multiple=True), BasicAck(5))
    recording.ask(0, 1, BasicCancel("c"), BasicCancelOk("c"))
    recording.ask(0, 1, QueueDelete(queue="q"), QueueDeleteOk(0))
    recording.close(0)
    result = play(recording)
    assert texts(result) == []
    assert result.sent == 16


def test_an_acknowledgement_of_all_is_of_those_that_the_recorded_client_had() -> None:
    """The live broker delivers sooner: what comes later in the recording is not acknowledged with the rest."""
    recording = opened(0, 1)
    recording.ask(0, 1, QueueDeclare(queue="q"), QueueDeclareOk("q", 0, 0))
    for number in range(1, 5):
        recording.client(0, 1, message(BasicPublish(routing_key="q"), b"%d" % number))
    recording.ask(0, 1, BasicConsume(queue="q", consumer_tag="c"), BasicConsumeOk("c"))
    for number in range(1, 3):
        recording.server(0, 1, message(BasicDeliver("c", number, routing_key="q"), b"%d" % number))
    recording.client(0, 1, BasicAck(0, multiple=True))
    for number in range(3, 5):
        recording.server(0, 1, message(BasicDeliver("c", number, routing_key="q"), b"%d" % number))
    recording.client(0, 1, BasicNack(3, requeue=False), BasicAck(0, multiple=True), BasicAck(0, multiple=True))
    recording.close(0)
    recording.ask(1, 1, QueueDelete(queue="q"), QueueDeleteOk(0))
    recording.close(1)
    log = TrafficLog(0)
    result = play(recording, watch=log.note)
    assert texts(result) == []
    sent = b"".join([each.data for each in log.chunks if each.sender is CLIENT])
    assert encode_method(1, BasicAck(2, multiple=True)) in sent
    assert encode_method(1, BasicNack(3, requeue=False)) in sent


def test_a_queue_that_was_not_empty_is_named_and_does_not_stop_it() -> None:
    recording = opened(0, 1)
    recording.ask(0, 1, QueueDeclare(queue="q"), QueueDeclareOk("q", 0, 0))
    recording.client(0, 1, message(BasicPublish(routing_key="q"), b"left over"))
    recording.client(0, 1, message(BasicPublish(routing_key="q"), b"mine"))
    recording.ask(0, 1, QueuePurge(queue="q"), QueuePurgeOk(1))
    recording.close(0)
    result = play(recording)
    assert [each.changes[0].field for each in result.differences] == ["message_count"]


def test_a_double_acknowledgement_closes_the_channel_again() -> None:
    recording = opened(0)
    recording.ask(0, 1, QueueDeclare(queue="q"), QueueDeclareOk("q", 0, 0))
    recording.client(0, 1, message(BasicPublish(routing_key="q"), b"1"))
    recording.ask(0, 1, BasicGet(queue="q"), message(BasicGetOk(1, routing_key="q"), b"1"))
    recording.client(0, 1, BasicAck(1), BasicAck(1))
    recording.server(0, 1, ChannelClose(406, "PRECONDITION_FAILED - unknown delivery tag 1", 60, 80))
    recording.client(0, 1, ChannelCloseOk())
    recording.open_channel(0, 1)
    recording.ask(0, 1, BasicGet(queue="q"), BasicGetEmpty())
    recording.close(0)
    assert texts(play(recording)) == []


def test_what_a_client_sent_before_it_read_of_the_close_is_sent_again() -> None:
    recording = opened(0)
    recording.client(0, 1, message(BasicPublish(exchange="no such exchange"), b"1"))
    recording.client(0, 1, message(BasicPublish(routing_key="q"), b"2"))
    text = "NOT_FOUND - no exchange 'no such exchange' in vhost '/'"
    recording.server(0, 1, ChannelClose(404, text, 60, 40))
    recording.client(0, 1, message(BasicPublish(routing_key="q"), b"3"), ChannelCloseOk())
    recording.close(0)
    result = play(recording)
    assert texts(result) == []
    assert result.sent == 9


def test_a_channel_that_is_closed_unlike_before_is_left_out_until_it_is_opened_again() -> None:
    recording = opened(0)
    recording.ask(0, 1, QueueDeclare(queue="gone", passive=True), QueueDeclareOk("gone", 0, 0))
    recording.client(0, 1, message(BasicPublish(routing_key="gone"), b"1"))
    recording.ask(0, 1, BasicGet(queue="gone"), message(BasicGetOk(1, routing_key="gone"), b"1"))
    recording.close_channel(0, 1)
    recording.open_channel(0, 1)
    recording.ask(0, 1, QueueDeclare(queue="there"), QueueDeclareOk("there", 0, 0))
    recording.close(0)
    result = play(recording)
    kinds = [(each.kind, each.method) for each in result.differences]
    assert kinds == [(DifferenceKind.MISSING, "queue.declare-ok"), (DifferenceKind.EXTRA, "channel.close")]
    assert {each.method for each in result.not_played} == {"basic.publish", "basic.get", "channel.close"}
    assert all("no queue 'gone'" in each.reason for each in result.not_played)


def test_an_error_that_does_not_come_again_is_missing_and_the_rest_is_played() -> None:
    recording = opened(0)
    recording.client(0, 1, QueueDeclare(queue="q"))
    recording.server(0, 1, ChannelClose(406, "PRECONDITION_FAILED - inequivalent arg", 50, 10))
    recording.client(0, 1, ChannelCloseOk())
    recording.open_channel(0, 1)
    recording.ask(0, 1, QueueDeclare(queue="q"), QueueDeclareOk("q", 0, 0))
    recording.close(0)
    result = play(recording)
    kinds = [(each.kind, each.method) for each in result.differences]
    assert kinds == [(DifferenceKind.MISSING, "channel.close"), (DifferenceKind.EXTRA, "queue.declare-ok")]
    assert result.not_played == []


def test_other_confirms_are_named() -> None:
    recording = opened(0)
    recording.ask(0, 1, ConfirmSelect(), ConfirmSelectOk())
    arguments = Table({"x-max-length": 1, "x-overflow": "reject-publish"})
    recording.ask(0, 1, QueueDeclare(queue="q", arguments=arguments), QueueDeclareOk("q", 0, 0))
    for body in (b"1", b"2"):
        recording.client(0, 1, message(BasicPublish(routing_key="q"), body))
    recording.server(0, 1, BasicAck(2, multiple=True))
    recording.close(0)
    result = play(recording)
    assert [(each.kind, each.changes[0].after) for each in result.differences] == [
        (DifferenceKind.CHANGED, "basic.nack")
    ]


def violation(recording: Recording, data: bytes, code: int) -> None:
    """The client sends what is no frame, and the broker closes the connection."""
    now = len(recording.decoded) * MILLISECOND
    recording.decoded.append(
        SkippedBytes(now, 0, "client:0-broker", "client", "0-9-1", "no frame", 0, len(data), code, 0, data)
    )
    recording.server(0, 0, ConnectionClose(code, ""))
    recording.client(0, 0, ConnectionCloseOk())
    recording.end(0)


def test_what_is_no_frame_is_sent_as_it_was() -> None:
    recording = opened(0)
    violation(recording, encode_method(1, BasicGet(queue="q"))[:-1] + b"\x00", 501)
    result = play(recording)
    assert [change.field for each in result.differences for change in each.changes] == ["reply_text"]
    assert result.not_played == []


@pytest.mark.parametrize(
    ("mistake", "code"),
    [
        (message(BasicPublish(routing_key="q"), b"1", channel=7), 504),
        (message(BasicGet(queue="q"), b"", channel=9), 504),
        (message(ChannelOpen(), b"", channel=1), 504),
    ],
    ids=["publish", "get", "second open"],
)
def test_mistakes_of_clients_are_made_again(mistake: object, code: int) -> None:
    recording = opened(0)
    recording.client(0, mistake.channel, mistake)  # type: ignore[arg-type, attr-defined]
    recording.server(0, 0, ConnectionClose(code, ""))
    recording.client(0, 0, ConnectionCloseOk())
    recording.end(0)
    result = play(recording)
    fields = {change.field for each in result.differences for change in each.changes}
    assert fields <= {"reply_text", "class_id", "method_id"}
    assert [each.kind for each in result.differences] == [DifferenceKind.CHANGED] * len(result.differences)


def test_a_login_that_was_refused_is_refused_again_and_another_user_is_not_asked_for() -> None:
    """It is in the corpus as it was recorded; here the password is masked, as in what the proxy records."""
    recording = Recording()
    recording.open(0)
    refused = recording.decoded[:3]
    recording.decoded[:] = refused
    recording.end(0, "server closed without connection.close")
    result = play(recording)
    assert [each.method for each in result.differences] in ([], ["connection.close"])


def test_a_login_in_steps_is_one_by_password() -> None:
    """What was asked and answered in the recorded login has no place in the live one, and is not missing."""
    recording = opened(0)
    start_ok = ConnectionStartOk(Table(), "RABBIT-CR-DEMO", b"guest", "en_US")
    handshake = Recording()
    handshake.client(0, 0, start_ok)
    handshake.server(0, 0, ConnectionSecure(b"Please tell me your password"))
    handshake.client(0, 0, ConnectionSecureOk(b"********************"))
    recording.decoded[2:3] = handshake.decoded
    recording.close(0)
    result = play(recording)
    assert texts(result) == []
    assert result.sent == 5


@pytest.mark.slow
def test_hundreds_of_connections() -> None:
    recording = Recording()
    for stream in range(300):
        recording.open(stream)
        recording.open_channel(stream, 1)
    for stream in range(300):
        recording.client(stream, 1, message(BasicPublish(routing_key="nowhere"), b"1"))
        recording.close(stream)
    result = play(recording)
    assert texts(result) == []
    assert result.connections == 300


def test_whether_a_broker_answers_after_the_close_of_the_connection_is_chance() -> None:
    recording = opened(0)
    recording.client(0, 1, QueueDeclare(queue="q"), ChannelClose(200, "bye"))
    recording.client(0, 0, ConnectionClose(200, "bye"))
    recording.server(0, 1, QueueDeclareOk("q", 0, 0), ChannelCloseOk())
    recording.server(0, 0, ConnectionCloseOk())
    recording.end(0)
    assert texts(play(recording)) == []


def test_a_delivery_that_crossed_a_cancel_is_waited_for() -> None:
    """The broker would not send it any more if the cancel came to it sooner than it did."""
    recording = opened(0)
    recording.ask(0, 1, QueueDeclare(queue="q"), QueueDeclareOk("q", 0, 0))
    for body in (b"1", b"2"):
        recording.client(0, 1, message(BasicPublish(routing_key="q"), body))
    recording.ask(0, 1, BasicQos(prefetch_count=1), BasicQosOk())
    recording.ask(0, 1, BasicConsume(queue="q", consumer_tag="c"), BasicConsumeOk("c"))
    recording.server(0, 1, message(BasicDeliver("c", 1, routing_key="q"), b"1"))
    recording.client(0, 1, BasicAck(1), BasicCancel("c"))
    recording.server(0, 1, message(BasicDeliver("c", 2, routing_key="q"), b"2"))
    recording.server(0, 1, BasicCancelOk("c"))
    recording.client(0, 1, BasicReject(2, requeue=True))
    recording.ask(0, 1, BasicGet(queue="q"), message(BasicGetOk(3, redelivered=True, routing_key="q"), b"2"))
    recording.client(0, 1, BasicAck(3))
    recording.close(0)
    assert texts(play(recording)) == []


def test_a_get_that_comes_too_early_is_repeated() -> None:
    """Connections that do not wait for each other: the message may not be there yet."""
    recording = Recording()
    for stream in (0, 1):
        recording.open(stream)
        recording.open_channel(stream, 1)
        recording.ask(stream, 1, QueueDeclare(queue="q"), QueueDeclareOk("q", 0, 0))
    for number in range(200):
        recording.ask(0, 1, QueueDeclare(queue=f"other-{number}"), QueueDeclareOk(f"other-{number}", 0, 0))
    recording.client(0, 1, message(BasicPublish(routing_key="q"), b"1"))
    recording.ask(1, 1, BasicGet(queue="q"), message(BasicGetOk(1, routing_key="q"), b"1"))
    recording.client(1, 1, BasicAck(1))
    recording.close(0)
    recording.close(1)
    result = play(recording, order=Order.CONNECTION)
    assert texts(result) == []
    assert result.retried > 0


def test_publishes_wait_while_the_broker_blocks_them() -> None:
    recording = opened(0)
    recording.client(0, 1, message(BasicPublish(routing_key="q"), b"1"))
    recording.ask(0, 1, QueueDeclare(queue="q"), QueueDeclareOk("q", 0, 0))
    for _ in range(100):
        recording.client(0, 1, message(BasicPublish(routing_key="q"), b"2"))
    with LocalBroker() as blocking, blocking.block():
        result = played(recording.steps(), blocking.url, timeout=0.3)
    assert not result.is_same
    assert len(result.notes) <= 1
    assert any(each.method == "queue.declare-ok" for each in result.differences)


@pytest.mark.slow
def test_heartbeats_are_live() -> None:
    log = TrafficLog(0)
    with broker() as url:
        result = played(steps_in(CAPTURES / "heartbeats.pcapng"), url, speed=1.0, watch=log.note)
    assert texts(result) == []
    assert HEARTBEAT_FRAME in [each.data for each in log.chunks if each.sender is CLIENT]

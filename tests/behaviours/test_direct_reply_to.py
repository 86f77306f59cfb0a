"""Answers without a queue: the pseudo-queue amq.rabbitmq.reply-to."""

from __future__ import annotations

import re

import pytest

from amqproxy.amqp091.methods import BasicAck, BasicDeliver, BasicReturn, QueueDeclare, QueueDelete
from tests.behaviours.client import Channel
from tests.behaviours.scene import Scene

pytestmark = pytest.mark.real

REPLY_TO = "amq.rabbitmq.reply-to"


def asked(scene: Scene, ch: Channel, q: str) -> tuple[Channel, str]:
    """The client that was asked, and where it is to answer."""
    ch.consume(REPLY_TO, "answers", no_ack=True)
    ch.publish("", q, b"question", reply_to=REPLY_TO, correlation_id="c")
    server = scene.beside()
    ch.settle(q)
    received = server.get(q)
    assert received
    assert received.properties.reply_to is not None
    assert received.properties.correlation_id == "c"
    return server, received.properties.reply_to


def test_reply_to_is_rewritten(scene: Scene, ch: Channel, q: str) -> None:
    _, reply_to = asked(scene, ch, q)
    assert re.fullmatch(rf"{re.escape(REPLY_TO)}(\.[A-Za-z0-9+/]{{10,}}={{0,2}}){{2}}", reply_to)


def test_the_answer_comes(scene: Scene, ch: Channel, q: str) -> None:
    server, reply_to = asked(scene, ch, q)
    server.publish("", reply_to, b"answer", correlation_id="c")
    answer = ch.expect(
        BasicDeliver, consumer_tag="answers", delivery_tag=1, redelivered=False, exchange="", routing_key=reply_to
    )
    assert (answer.body, answer.properties.correlation_id) == (b"answer", "c")


def test_many_answers_come(scene: Scene, ch: Channel, q: str) -> None:
    server, reply_to = asked(scene, ch, q)
    for number in range(3):
        server.publish("", reply_to, b"%d" % number)
    assert ch.bodies(3) == [b"0", b"1", b"2"]


def test_a_server_on_another_connection(scene: Scene, ch: Channel) -> None:
    queue = ch.declare(scene.q)
    server = scene.channel()
    server.consume(queue, no_ack=True)
    ch.consume(REPLY_TO, no_ack=True)
    ch.publish("", queue, reply_to=REPLY_TO)
    (question,) = server.deliveries(1)
    server.publish("", question.properties.reply_to or "", b"answer")
    assert ch.bodies(1) == [b"answer"]
    ch.call(QueueDelete(queue=queue))


def test_another_reply_to_is_left_alone(ch: Channel, q: str) -> None:
    ch.consume(REPLY_TO, no_ack=True)
    ch.publish("", q, reply_to="elsewhere")
    received = ch.get(q)
    assert received
    assert received.properties.reply_to == "elsewhere"


def test_whether_the_asker_is_there_can_be_seen(scene: Scene, ch: Channel, q: str) -> None:
    """A passive declare of the rewritten name finds it, with a consumer and no message."""
    server, reply_to = asked(scene, ch, q)
    found = server.peek(reply_to)
    assert (found.queue, found.message_count, found.consumer_count) == (reply_to, 0, 1)


def test_an_asker_that_is_gone_is_not_found(scene: Scene, ch: Channel, q: str) -> None:
    server, reply_to = asked(scene, ch, q)
    ch.cancel("answers")
    server.send(QueueDeclare(queue=reply_to, passive=True))
    server.expect_close(f"channel 404 queue.declare NOT_FOUND - no queue '{reply_to}' in vhost 'behaviours'")


def test_the_pseudo_queue_can_be_declared_and_deleted(ch: Channel) -> None:
    found = ch.peek(REPLY_TO)
    assert (found.queue, found.message_count) == (REPLY_TO, 0)


def test_an_answer_without_a_consumer_is_dropped(scene: Scene, ch: Channel, q: str) -> None:
    server, reply_to = asked(scene, ch, q)
    ch.cancel("answers")
    server.publish("", reply_to, b"too late")
    server.expect_nothing()
    ch.expect_nothing()


def test_a_mandatory_answer_without_a_consumer_is_returned(scene: Scene, ch: Channel, q: str) -> None:
    server, reply_to = asked(scene, ch, q)
    ch.cancel("answers")
    server.publish("", reply_to, b"too late", mandatory=True)
    if scene.profile.returns_replies:
        assert server.expect(BasicReturn, reply_code=312).body == b"too late"
    else:
        server.expect_nothing()


def test_an_answer_is_confirmed(scene: Scene, ch: Channel, q: str) -> None:
    server, reply_to = asked(scene, ch, q)
    server.confirms()
    server.publish("", reply_to, b"answer")
    server.expect(BasicAck, delivery_tag=1)
    assert ch.bodies(1) == [b"answer"]


def test_a_mandatory_answer_comes_back_though_it_arrives(scene: Scene, ch: Channel, q: str) -> None:
    """As there is no queue that it could have gone to."""
    server, reply_to = asked(scene, ch, q)
    server.publish("", reply_to, b"answer", mandatory=True)
    if scene.profile.returns_replies:
        server.expect(BasicReturn, reply_code=312)
    assert ch.bodies(1) == [b"answer"]
    server.expect_nothing()


def test_the_consumer_can_be_cancelled_and_made_again(ch: Channel) -> None:
    for _ in range(2):
        ch.consume(REPLY_TO, "answers", no_ack=True)
        ch.cancel("answers")


def test_an_answer_needs_the_default_exchange(scene: Scene, ch: Channel, q: str) -> None:
    server, reply_to = asked(scene, ch, q)
    server.publish("amq.direct", reply_to, b"answer", mandatory=True)
    server.expect(BasicReturn, exchange="amq.direct")
    ch.expect_nothing()

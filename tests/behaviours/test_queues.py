"""Declaring, purging and deleting queues, and when they go by themselves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from amqproxy.amqp091.methods import (
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicReturn,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
)
from amqproxy.amqp091.wire import Table
from amqproxy.rabbitmq.profile import Profile
from tests.behaviours.client import Channel, until
from tests.behaviours.scene import Scene

pytestmark = pytest.mark.real

# ------------------------------------------------------------------------------------------------------- declaring


def test_declare_ok_counts_ready_messages_and_consumers(scene: Scene, ch: Channel, q: str) -> None:
    beside = scene.beside()
    for _ in range(3):
        ch.publish("", q)
    ch.settle(q)
    assert beside.get(q, no_ack=False)
    found = ch.call(QueueDeclare(queue=q, exclusive=True))
    assert (found.queue, found.message_count, found.consumer_count) == (q, 2, 0)
    beside.qos(1)
    beside.consume(q)
    beside.deliveries(1)
    found = ch.call(QueueDeclare(queue=q, exclusive=True))
    assert (found.queue, found.message_count, found.consumer_count) == (q, 1, 1)


@pytest.mark.parametrize("flags", [{}, {"durable": True}, {"exclusive": True}, {"auto_delete": True}], ids=str)
@pytest.mark.parametrize("type_", [None, "classic"])
def test_declared_again_alike(scene: Scene, ch: Channel, flags: dict[str, bool], type_: str | None) -> None:
    arguments = {"x-queue-type": type_} if type_ else {}
    for _ in range(2):
        assert ch.declare(scene.q, arguments=arguments, **flags) == scene.q
    ch.call(QueueDelete(queue=scene.q))


def test_classic_by_name_is_classic_by_default(scene: Scene, ch: Channel) -> None:
    ch.declare(scene.q, exclusive=True)
    ch.declare(scene.q, exclusive=True, arguments={"x-queue-type": "classic"})


TYPED = "typed"


@pytest.fixture
def typed(scene: Scene) -> Iterator[Channel]:
    """A channel of a virtual host in which queues are quorum queues unless they ask for another type."""
    scene.broker.define(
        vhosts=[{"name": TYPED, "metadata": {"default_queue_type": "quorum"}}],
        permissions=[{"user": "guest", "vhost": TYPED, "configure": ".*", "write": ".*", "read": ".*"}],
    )
    yield scene.channel(vhost=TYPED)
    scene.broker.forget(vhosts=[TYPED])


def test_the_default_type_of_a_virtual_host(typed: Channel) -> None:
    """It is that of queues which a quorum queue can be; one that is declared again has to have it, too."""
    for flags in ({"durable": True}, {}, {"exclusive": True}, {"durable": True, "auto_delete": True}):
        queue = typed.declare("-".join(["q", *flags]), **flags)
        again = typed.client.channel()
        again.send(QueueDeclare(queue=queue, arguments=Table({"x-queue-type": "quorum"}), **flags))
        if flags == {"durable": True}:
            again.expect(QueueDeclareOk)
        else:
            assert " 406 " in again.refusal()
    typed.declare("classic", durable=True, arguments={"x-queue-type": "classic"})
    typed.send(QueueDeclare(queue="classic", durable=True))
    typed.expect_close(
        f"channel 406 queue.declare PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'classic' in "
        f"vhost '{TYPED}': received 'quorum' but current is 'classic'"
    )


def test_server_names(ch: Channel) -> None:
    names = {ch.declare(exclusive=True) for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("amq.gen-") and len(name) == 30 for name in names)


def test_a_server_name_can_be_declared_again_passively_only(ch: Channel) -> None:
    name = ch.declare(exclusive=True)
    assert ch.peek(name).queue == name
    ch.send(QueueDeclare(queue=name, exclusive=True))
    ch.expect_close(f"channel 403 queue.declare ACCESS_REFUSED - queue name '{name}' contains reserved prefix 'amq.*'")


def test_passive_without_a_name(ch: Channel) -> None:
    ch.declare(exclusive=True)
    ch.send(QueueDeclare(passive=True))
    ch.expect_close("channel 404 queue.declare NOT_FOUND - no queue '' in vhost 'behaviours'")


@pytest.mark.parametrize("name", ["with space", "é", "a" * 255, "-.:_/#*"], ids=["space", "UTF-8", "255", "marks"])
def test_names(ch: Channel, name: str) -> None:
    assert ch.declare(name, exclusive=True) == name
    ch.publish("", name, b"x")
    assert ch.drain(name) == [b"x"]


def test_line_ends_are_taken_out_of_names(scene: Scene, ch: Channel) -> None:
    assert ch.declare(f"{scene.q}\r\n", exclusive=True) == scene.q


def test_declare_no_wait(scene: Scene, ch: Channel) -> None:
    ch.send(QueueDeclare(queue=scene.q, exclusive=True, no_wait=True))
    assert ch.depth(scene.q) == 0
    ch.expect_nothing()


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-message-ttl": 0},
        {"x-expires": 60000},
        {"x-max-length": 0},
        {"x-max-length-bytes": 0},
        {"x-overflow": "drop-head"},
        {"x-overflow": "reject-publish"},
        {"x-overflow": "reject-publish-dlx"},
        {"x-dead-letter-exchange": ""},
        {"x-dead-letter-exchange": "nowhere", "x-dead-letter-routing-key": "k"},
        {"x-max-priority": 0},
        {"x-max-priority": 255},
        {"x-single-active-consumer": True},
        {"x-single-active-consumer": False},
        {"x-queue-mode": "lazy"},
        {"x-queue-mode": "default"},
        {"x-queue-type": "classic"},
        {"x-queue-version": 1},
        {"x-queue-version": 2},
        {"x-queue-master-locator": "client-local"},
        {"ha-mode": "all", "anything": [1, {"else": True}]},
    ],
    ids=str,
)
def test_arguments_that_are_taken(ch: Channel, arguments: dict[str, object], profile: Profile) -> None:
    if arguments.get("x-queue-version", 2) not in profile.queue_versions:
        ch.send(QueueDeclare(arguments=Table(arguments), exclusive=True))
        assert ch.refusal().endswith(": \"unsupported queue version '1'\"")
        return
    if "x-queue-master-locator" in arguments and not profile.permits("queue_master_locator"):
        pytest.skip("the version denies it: see test_versions.py")
    queue = ch.declare(arguments=arguments, exclusive=True)
    ch.publish("", queue)
    assert ch.exists(queue)


# ---------------------------------------------------------------------------------------------- the last one declared


@pytest.mark.parametrize(
    "method",
    [
        QueueBind(exchange="amq.direct", routing_key="k"),
        QueueUnbind(exchange="amq.direct", routing_key="k"),
        QueuePurge(),
        BasicConsume(),
        QueueDelete(),
    ],
    ids=lambda method: method.name,
)
def test_an_empty_name_is_the_last_queue_declared(ch: Channel, method: object) -> None:
    queue = ch.declare(exclusive=True)
    ch.call(method)  # type: ignore[arg-type]
    if isinstance(method, QueueDelete):
        assert not ch.exists(queue)


def test_a_passive_declare_counts_as_the_last(scene: Scene, ch: Channel, q: str) -> None:
    ch.publish("", q, b"x")
    beside = scene.beside()
    beside.declare(exclusive=True)
    beside.peek(q)
    assert beside.drain("") == [b"x"]


def test_the_last_queue_is_the_channels_own(scene: Scene, ch: Channel, q: str) -> None:
    beside = scene.beside()
    beside.send(BasicGet())
    beside.expect_close("channel 404 basic.get NOT_FOUND - no previously declared queue")


def test_a_last_queue_that_is_gone(ch: Channel) -> None:
    """The channel does not forget it."""
    queue = ch.declare(exclusive=True)
    ch.call(QueueDelete(queue=queue))
    ch.send(BasicGet())
    ch.expect_close(f"channel 404 basic.get NOT_FOUND - no queue '{queue}' in vhost 'behaviours'")


# ------------------------------------------------------------------------------------------------- purge and delete


def test_purge_takes_ready_messages_only(scene: Scene, ch: Channel, q: str) -> None:
    for body in (b"1", b"2", b"3"):
        ch.publish("", q, body)
    first = ch.get(q, no_ack=False)
    assert first
    assert ch.call(QueuePurge(queue=q)).message_count == 2
    ch.reject(first, requeue=True)
    assert ch.drain(q) == [b"1"]


def test_purge_no_wait(ch: Channel, q: str) -> None:
    ch.publish("", q)
    ch.send(QueuePurge(queue=q, no_wait=True))
    assert ch.drain(q) == []
    ch.expect_nothing()


def test_delete_counts_ready_messages(ch: Channel, q: str) -> None:
    for _ in range(3):
        ch.publish("", q)
    assert ch.get(q, no_ack=False)
    assert ch.call(QueueDelete(queue=q)).message_count == 2


def test_delete_of_none_counts_none(ch: Channel) -> None:
    assert ch.call(QueueDelete(queue="nil")).message_count == 0


def test_delete_if_unused_and_if_empty_of_one_that_is(ch: Channel, q: str) -> None:
    ch.call(QueueDelete(queue=q, if_unused=True, if_empty=True))
    assert not ch.exists(q)


def test_delete_if_empty_counts_only_ready_messages(ch: Channel, q: str) -> None:
    """RabbitMQ holds a queue to be empty when nothing in it is ready, whatever is unacknowledged."""
    ch.publish("", q)
    assert ch.get(q, no_ack=False)
    ch.call(QueueDelete(queue=q, if_empty=True))
    assert not ch.exists(q)


def test_delete_no_wait(ch: Channel, q: str) -> None:
    ch.send(QueueDelete(queue=q, no_wait=True))
    assert not ch.exists(q)
    ch.expect_nothing()


def test_acknowledgements_for_a_queue_that_is_gone(ch: Channel, q: str) -> None:
    ch.publish("", q)
    received = ch.get(q, no_ack=False)
    assert received
    ch.call(QueueDelete(queue=q))
    ch.ack(received)
    ch.expect_nothing()


# ------------------------------------------------------------------------------------------------- by themselves


def test_auto_delete_waits_for_a_first_consumer(scene: Scene, ch: Channel) -> None:
    queue = ch.declare(scene.q, auto_delete=True)
    ch.publish("", queue)
    ch.drain(queue)
    assert ch.exists(queue)
    ch.call(QueueDelete(queue=queue))


@pytest.mark.parametrize("how", ["cancel", "close", "connection"])
def test_auto_delete_goes_with_its_last_consumer(scene: Scene, ch: Channel, how: str) -> None:
    other = scene.channel()
    queue = ch.declare(scene.q, auto_delete=True)
    tag, last = other.consume(queue), other.consume(queue)
    other.cancel(tag)
    assert ch.exists(queue)
    if how == "cancel":
        other.call(BasicCancel(last))
    elif how == "close":
        other.close()
    else:
        other.client.close()
    until(lambda: not ch.exists(queue), "the queue to go")


def test_exclusive_is_open_to_every_channel_of_the_connection(scene: Scene, ch: Channel, q: str) -> None:
    beside = scene.beside()
    beside.publish("", q, b"x")
    beside.settle(q)
    assert beside.drain(q) == [b"x"]


def test_anyone_may_publish_to_an_exclusive_queue(scene: Scene, ch: Channel, q: str) -> None:
    other = scene.channel()
    other.publish("", q, b"x")
    until(lambda: ch.depth(q), "the message to be there")
    assert ch.drain(q) == [b"x"]


def is_left(ch: Channel, queue: str) -> bool:
    """Whether a queue is there, asked by a mandatory message: passive declares would put off its expiry, and RabbitMQ
    4.3 at times answers queue.bind with 541 while the queue expires.
    """
    ch.publish("", queue, mandatory=True)
    ch.settle()
    returned = [each for each in ch.inbox if isinstance(each.method, BasicReturn)]
    for each in returned:
        ch.inbox.remove(each)
    return not returned


def test_expires_when_unused(scene: Scene, ch: Channel) -> None:
    queue = ch.declare(scene.q, arguments={"x-expires": 100})
    ch.publish("", queue)
    until(lambda: not is_left(ch, queue), "the queue to expire, whatever is in it")


def test_lives_on_while_consumed(scene: Scene, ch: Channel) -> None:
    queue = ch.declare(scene.q, arguments={"x-expires": 400})
    beside = scene.beside()
    tag = beside.consume(queue)
    longer = ch.declare(scene.q2, arguments={"x-expires": 800})
    until(lambda: not is_left(ch, longer), "the other queue to expire")
    assert is_left(ch, queue)
    beside.cancel(tag)
    until(lambda: not is_left(ch, queue), "the queue to expire")


@pytest.mark.unsupported_on_rabbitmq("its queue is gone, and the get after it closes the connection with 541", "4.3")
def test_use_puts_expiry_off(scene: Scene, ch: Channel) -> None:
    queue = ch.declare(scene.q, arguments={"x-expires": 200})
    longer = ch.declare(scene.q2, arguments={"x-expires": 400})
    beside = scene.beside()

    def used() -> bool:
        beside.get(queue)
        return not is_left(ch, longer)

    until(used, "the other queue to expire")
    assert is_left(ch, queue)

"""Behaviours that the table of versions has, and no other file asks for."""

from __future__ import annotations

from contextlib import closing

import pytest

from amqproxy.amqp091.methods import BasicDeliver, ExchangeDelete, QueueBind, QueueDeclare, QueueDeclareOk, QueueDelete
from amqproxy.amqp091.wire import Table
from amqproxy.broker import Broker, serve_in_thread
from amqproxy.rabbitmq.profile import PROFILES, Profile
from tests.behaviours.client import Channel, Client, Closed, Gone, until
from tests.behaviours.scene import Scene

pytestmark = pytest.mark.real


def test_the_version(scene: Scene) -> None:
    """The table is of the minor version; patch releases may come."""
    version = scene.bare().greet().server_properties["version"]
    assert version.split(".")[:2] == scene.profile.version.split(".")[:2]


def test_a_lower_frame_max_is_cut_off(scene: Scene) -> None:
    with pytest.raises((Closed, Gone, AssertionError)):
        scene.client(frame_max=scene.profile.frame_max_floor - 1)
    scene.client(frame_max=scene.profile.frame_max_floor)


def test_the_largest_message(scene: Scene, ch: Channel, q: str, profile: Profile) -> None:
    """Announced only: its body is not sent unless it may be."""
    size = profile.message_size
    if size > 2**25:
        pytest.skip("it takes long")
    ch.publish("", q, bytes(size))
    until(lambda: ch.depth(q) == 1, "the message")
    ch.publish("", q, bytes(size + 1))
    ch.expect_close(
        f"channel 406 basic.publish PRECONDITION_FAILED - message size {size + 1} is larger than configured max size "
        f"{size}"
    )


def test_a_limit_of_the_channel_may_be_one_of_each_consumer(ch: Channel, q: str, profile: Profile) -> None:
    for number in range(8):
        ch.publish("", q, b"%d" % number)
    ch.qos(3, global_=True)
    ch.consume(q, "a")
    ch.consume(q, "b")
    for _ in range(3 if profile.permits("global_qos") else 6):
        ch.expect(BasicDeliver)
    ch.expect_nothing(q)


@pytest.mark.parametrize(
    ("feature", "declare"),
    [
        ("transient_nonexcl_queues", QueueDeclare(queue="transient", auto_delete=True)),
        (
            "queue_master_locator",
            QueueDeclare(queue="located", durable=True, arguments=Table({"x-queue-master-locator": "client-local"})),
        ),
    ],
    ids=["transient queue", "queue master locator"],
)
def test_a_denied_feature_ends_the_connection(
    ch: Channel, profile: Profile, feature: str, declare: QueueDeclare
) -> None:
    if profile.permits(feature):
        ch.call(declare)
        ch.call(QueueDelete(queue=declare.queue))
        return
    ch.send(declare)
    assert ch.refusal().startswith(
        f"connection 541 queue.declare INTERNAL_ERROR - Feature `{feature}` is deprecated.\n"
        "By default, this feature is not permitted anymore."
    )


@pytest.mark.parametrize("type_", ["x-local-random", "x-modulus-hash"])
def test_later_exchange_types(scene: Scene, ch: Channel, q: str, profile: Profile, type_: str) -> None:
    if type_ not in profile.exchange_types:
        with pytest.raises(Closed):
            ch.exchange(scene.x, type_)
        return
    ch.exchange(scene.x, type_)
    other = ch.declare(exclusive=True)
    ch.bind(q, scene.x)
    ch.bind(other, scene.x)
    for _ in range(4):
        ch.publish(scene.x, "k")
    until(lambda: ch.depth(q) + ch.depth(other) == 4, "each message in one queue")
    ch.call(ExchangeDelete(exchange=scene.x))


def test_a_local_random_exchange_takes_no_binding_key(scene: Scene, ch: Channel, q: str, profile: Profile) -> None:
    if "x-local-random" not in profile.exchange_types:
        pytest.skip("the version has no such exchange")
    ch.exchange(scene.x, "x-local-random", auto_delete=True)
    ch.send(QueueBind(queue=q, exchange=scene.x, routing_key="k"))
    ch.expect_close("channel 406 queue.bind PRECONDITION_FAILED - Non empty binding 'k' key not permitted")


@pytest.mark.parametrize("how", ["reject", "nack"])
def test_the_delivery_limit_of_quorum_queues(scene: Scene, ch: Channel, profile: Profile, how: str) -> None:
    """A message that comes back once more than the limit is dropped, if its coming back counts."""
    queue = ch.declare(scene.q, durable=True, arguments={"x-queue-type": "quorum"})
    scene.stack.callback(lambda: scene.channel().call(QueueDelete(queue=queue)))
    ch.confirms()
    ch.publish("", queue, b"1")
    assert ch.outcome() == "ack"
    is_limited = profile.delivery_limit is not None and (how == "reject" or not profile.counts_acquisitions)
    for _ in range(21):
        message = until(lambda: ch.get(queue, no_ack=False), "the message")
        if how == "reject":
            ch.reject(message, requeue=True)
        else:
            ch.nack(message)
    if is_limited:
        until(lambda: ch.depth(queue) == 0, "the message to be dropped")
        assert ch.get(queue) is None
    else:
        until(lambda: ch.get(queue), "the message")


@pytest.mark.parametrize(
    ("arguments", "behaviour"),
    [
        ({"x-queue-leader-locator": "client-local"}, "classic_leader_locator"),
        ({"x-consumer-timeout": 100_000}, "quorum_consumer_timeout"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_arguments_of_classic_queues(
    ch: Channel, profile: Profile, arguments: dict[str, object], behaviour: str
) -> None:
    is_taken = getattr(profile, behaviour) is (behaviour == "classic_leader_locator")
    ch.send(QueueDeclare(arguments=Table(arguments), exclusive=True))
    if is_taken:
        ch.expect(QueueDeclareOk)
    else:
        assert ch.refusal().endswith("of queue type rabbit_classic_queue")


# --------------------------------------------------------------------------------------------------- of ours alone


def test_a_feature_can_be_denied_and_permitted() -> None:
    denied = PROFILES["4.3"].switching({"transient_nonexcl_queues": False, "global_qos": True})
    assert denied.permits("global_qos")
    with serve_in_thread(Broker(profile=denied)) as broker, closing(Client(broker.port).open()) as client:
        ch = client.channel()
        ch.send(QueueDeclare(queue="transient"))
        assert ch.refusal().startswith(
            "connection 541 queue.declare INTERNAL_ERROR - Feature `transient_nonexcl_queues` is deprecated.\n"
            "Its use is not permitted per the configuration (overriding the default, which is permitted):\n"
            '    "deprecated_features.permit.transient_nonexcl_queues = false"\n'
            "Its use will not be permit..."
        )

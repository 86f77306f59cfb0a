"""Transactions: publishes and acknowledgements that take effect together, or not at all."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import BasicRecover, BasicReturn, QueueDelete, TxCommit, TxCommitOk, TxRollback, TxSelect
from amqproxy.rabbitmq.profile import Profile
from tests.behaviours.client import Channel
from tests.behaviours.scene import Scene

pytestmark = pytest.mark.real


@pytest.fixture
def tx(scene: Scene) -> Channel:
    """A transactional channel beside the first one."""
    beside = scene.beside()
    beside.call(TxSelect())
    return beside


def test_publishes_wait_for_commit(ch: Channel, tx: Channel, q: str) -> None:
    for body in (b"1", b"2"):
        tx.publish("", q, body)
    tx.settle(q)
    assert ch.drain(q) == []
    tx.call(TxCommit())
    assert ch.drain(q) == [b"1", b"2"]


def test_rollback_forgets_publishes(ch: Channel, tx: Channel, q: str) -> None:
    tx.publish("", q, b"1")
    tx.call(TxRollback())
    tx.publish("", q, b"2")
    tx.call(TxCommit())
    assert ch.drain(q) == [b"2"]


def test_the_queue_of_that_name_at_commit(ch: Channel, tx: Channel, q: str, profile: Profile) -> None:
    """Which queues a publish goes to is known by their names, and one of these may be another queue by then."""
    tx.publish("", q, b"1")
    tx.settle(q)
    ch.call(QueueDelete(queue=q))
    ch.declare(q, exclusive=True)
    if not profile.commits_to_successor:
        tx.send(TxCommit())
        tx.expect_close("channel 406 tx.commit PRECONDITION_FAILED - partial tx completion")
        return
    tx.call(TxCommit())
    assert ch.drain(q) == [b"1"]


def test_a_commit_begins_the_next_transaction(ch: Channel, tx: Channel, q: str) -> None:
    tx.publish("", q, b"1")
    tx.call(TxCommit())
    tx.publish("", q, b"2")
    tx.call(TxRollback())
    assert ch.drain(q) == [b"1"]


def test_empty_transactions(tx: Channel) -> None:
    tx.call(TxCommit())
    tx.call(TxRollback())
    tx.call(TxCommit())


def test_one_commit_for_many_queues(ch: Channel, tx: Channel) -> None:
    queues = [ch.declare(exclusive=True) for _ in range(5)]
    for queue in queues:
        tx.publish("", queue, delivery_mode=2)
    assert [ch.depth(queue) for queue in queues] == [0] * 5
    tx.call(TxCommit())
    assert [ch.depth(queue) for queue in queues] == [1] * 5


def test_returns_wait_for_commit(scene: Scene, tx: Channel) -> None:
    tx.publish("", scene.q, b"back", mandatory=True)
    tx.expect_nothing()
    tx.send(TxCommit())
    assert tx.expect(BasicReturn).body == b"back"
    tx.expect(TxCommitOk)


def test_routing_happens_at_once(scene: Scene, ch: Channel, tx: Channel, q: str) -> None:
    """A binding made between publish and commit comes too late."""
    ch.exchange(scene.x, "fanout")
    tx.publish(scene.x, "", b"early")
    tx.settle()
    ch.bind(q, scene.x)
    tx.call(TxCommit())
    assert ch.drain(q) == []


def test_a_publish_to_no_exchange_fails_at_once(scene: Scene, tx: Channel) -> None:
    tx.publish(scene.x, "k")
    tx.expect_close(scene.fill("channel 404 basic.publish NOT_FOUND - no {exchange}"))


def test_a_failed_channel_commits_nothing(scene: Scene, ch: Channel, tx: Channel, q: str) -> None:
    tx.publish("", q)
    tx.publish(scene.x, "k")
    tx.refusal()
    assert ch.drain(q) == []


def test_a_closed_channel_commits_nothing(ch: Channel, tx: Channel, q: str) -> None:
    tx.publish("", q)
    tx.close()
    assert ch.drain(q) == []


# ------------------------------------------------------------------------------------------------- acknowledgements


def test_acks_wait_for_commit(ch: Channel, tx: Channel, q: str) -> None:
    ch.publish("", q, b"x")
    ch.settle(q)
    received = tx.get(q, no_ack=False)
    assert received
    tx.ack(received)
    tx.settle(q)
    tx.close()
    assert ch.drain(q) == [b"x"]


def test_committed_acks_count(ch: Channel, tx: Channel, q: str) -> None:
    ch.publish("", q, b"x")
    ch.settle(q)
    received = tx.get(q, no_ack=False)
    assert received
    tx.ack(received)
    tx.call(TxCommit())
    tx.close()
    assert ch.drain(q) == []


def test_rolled_back_acks_do_not_requeue(ch: Channel, tx: Channel, q: str) -> None:
    """The messages are unacknowledged again, and can be acknowledged again."""
    ch.publish("", q, b"x")
    ch.settle(q)
    received = tx.get(q, no_ack=False)
    assert received
    tx.ack(received)
    tx.call(TxRollback())
    assert ch.drain(q) == []
    tx.ack(received)
    tx.call(TxCommit())
    tx.close()
    assert ch.drain(q) == []


def test_a_recover_leaves_acks_to_be_rolled_back(ch: Channel, tx: Channel, q: str) -> None:
    """basic.recover does not requeue acknowledged messages, which are unacknowledged again after the rollback."""
    ch.publish("", q, b"x")
    ch.settle(q)
    received = tx.get(q, no_ack=False)
    assert received
    tx.ack(received)
    tx.call(BasicRecover(True))
    assert ch.drain(q) == []
    tx.call(TxRollback())
    assert ch.drain(q) == []
    tx.ack(received)
    tx.call(TxCommit())
    tx.close()
    assert ch.drain(q) == []


@pytest.mark.parametrize("requeue", [True, False])
def test_rejects_wait_for_commit(ch: Channel, tx: Channel, q: str, requeue: bool) -> None:
    ch.publish("", q, b"x")
    ch.settle(q)
    received = tx.get(q, no_ack=False)
    assert received
    tx.reject(received, requeue=requeue)
    tx.settle(q)
    assert ch.drain(q) == []
    tx.call(TxCommit())
    assert ch.drain(q) == ([b"x"] if requeue else [])


def test_acks_do_not_make_room_before_commit(ch: Channel, tx: Channel, q: str) -> None:
    for _ in range(2):
        ch.publish("", q)
    ch.settle(q)
    tx.qos(1)
    tx.consume(q)
    (received,) = tx.deliveries(1)
    tx.ack(received)
    tx.expect_nothing(q)
    tx.call(TxCommit())
    tx.deliveries(1)


def test_an_ack_twice_in_one_transaction(ch: Channel, tx: Channel, q: str) -> None:
    ch.publish("", q)
    ch.settle(q)
    received = tx.get(q, no_ack=False)
    assert received
    tx.ack(received)
    tx.ack(received)
    tx.expect_close("channel 406 basic.ack PRECONDITION_FAILED - unknown delivery tag 1")


def test_publish_and_ack_in_one(ch: Channel, tx: Channel, q: str) -> None:
    """A message moves on from one queue to another: it is in one of them, whatever happens."""
    target = ch.declare(exclusive=True)
    ch.publish("", q, b"moved")
    ch.settle(q)
    received = tx.get(q, no_ack=False)
    assert received
    tx.publish("", target, received.body)
    tx.ack(received)
    tx.call(TxCommit())
    tx.close()
    assert ch.drain(q) == []
    assert ch.drain(target) == [b"moved"]

"""Policies: arguments that operators give to queues and exchanges, by name, also to those already there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from amqproxy.amqp091.methods import BasicReturn
from tests.behaviours.client import Channel, until
from tests.behaviours.scene import Scene
from tests.behaviours.target import Target

pytestmark = pytest.mark.real

VHOST = "governed"


def policy(
    name: str, definition: dict[str, Any], apply_to: str = "queues", priority: int = 0, pattern: str = ""
) -> Any:
    """One that holds for all names that begin with its own."""
    return {
        "vhost": VHOST,
        "name": name,
        "pattern": pattern or f"^{name}-",
        "definition": definition,
        "apply-to": apply_to,
        "priority": priority,
    }


def operator_policy(name: str, definition: dict[str, Any], pattern: str = "") -> dict[str, Any]:
    return {
        "vhost": VHOST,
        "component": "operator_policy",
        "name": name,
        "value": {
            "pattern": pattern or f"^{name}-",
            "definition": definition,
            "apply-to": "queues",
            "priority": 0,
        },
    }


@pytest.fixture(scope="module")
def governed(broker: Target) -> Iterator[Target]:
    """A virtual host with all the policies of the tests."""
    broker.define(
        vhosts=[{"name": VHOST}],
        permissions=[{"vhost": VHOST, "user": "guest", "configure": ".*", "write": ".*", "read": ".*"}],
        policies=[
            policy("length", {"max-length": 2}),
            policy("size", {"max-length-bytes": 4}),
            policy("reject", {"max-length": 1, "overflow": "reject-publish"}),
            policy("ttl", {"message-ttl": 30}),
            policy("expires", {"expires": 50}),
            policy("dlx", {"dead-letter-exchange": "amq.fanout", "dead-letter-routing-key": "grave"}),
            policy("dlxmax", {"dead-letter-exchange": "", "dead-letter-routing-key": "letters", "max-length": 1}),
            policy("ae", {"alternate-exchange": "amq.fanout"}, "exchanges"),
            policy("both", {"max-length": 1}, "all"),
            policy("low", {"max-length": 1, "message-ttl": 30}, priority=1, pattern="^prio-"),
            policy("high", {"max-length": 2}, priority=9, pattern="^prio-"),
            policy("limit", {"delivery-limit": 1}),
            policy("merged", {"max-length": 3}),
            policy("anywhere", {"max-length": 1}, pattern="middle"),
        ],
        parameters=[
            operator_policy("operator", {"max-length": 1}),
            operator_policy("operator-merged", {"max-length": 2, "message-ttl": 60000}, "^merged-"),
        ],
    )
    yield broker
    broker.forget(vhosts=[VHOST])


@pytest.fixture
def gov(governed: Target, scene: Scene) -> Channel:
    return scene.channel(vhost=VHOST)


def left(ch: Channel, queue: str, *bodies: bytes) -> list[bytes]:
    """What stays in a queue of all that is published to it."""
    for body in bodies:
        ch.publish("", queue, body)
    ch.settle(queue)
    return ch.drain(queue)


@pytest.mark.parametrize(
    ("queue", "arguments", "bodies", "expected"),
    [
        ("length-q", {}, [b"1", b"2", b"3"], [b"2", b"3"]),
        ("size-q", {}, [b"aa", b"bb", b"cc"], [b"bb", b"cc"]),
        ("reject-q", {}, [b"1", b"2"], [b"1"]),
        ("both-q", {}, [b"1", b"2"], [b"2"]),
        ("anywhere-in-the-middle-q", {}, [b"1", b"2"], [b"2"]),
        ("length-smaller", {"x-max-length": 1}, [b"1", b"2", b"3"], [b"3"]),
        ("length-larger", {"x-max-length": 5}, [b"1", b"2", b"3"], [b"2", b"3"]),
        ("reject-argument", {"x-overflow": "drop-head"}, [b"1", b"2"], [b"2"]),
        ("prio-q", {}, [b"1", b"2", b"3"], [b"2", b"3"]),
        ("operator-q", {}, [b"1", b"2"], [b"2"]),
        ("operator-argument", {"x-max-length": 5}, [b"1", b"2"], [b"2"]),
        ("merged-q", {}, [b"1", b"2", b"3", b"4"], [b"3", b"4"]),
        ("other-q", {}, [b"1", b"2", b"3"], [b"1", b"2", b"3"]),
        ("Length-q", {}, [b"1", b"2", b"3"], [b"1", b"2", b"3"]),
    ],
    ids=[
        "max-length",
        "max-length-bytes",
        "overflow",
        "queues and exchanges",
        "a pattern is searched for",
        "the smaller number counts: the argument",
        "the smaller number counts: the policy",
        "an argument goes before a policy",
        "the highest priority alone",
        "operator policy",
        "operator policy against an argument",
        "operator policy against a policy",
        "none",
        "patterns know upper and lower case",
    ],
)
def test_limits(
    gov: Channel, queue: str, arguments: dict[str, Any], bodies: list[bytes], expected: list[bytes]
) -> None:
    gov.declare(queue, exclusive=True, arguments=arguments)
    assert left(gov, queue, *bodies) == expected


def test_a_policy_is_no_argument(gov: Channel) -> None:
    """A re-declare need not know of it."""
    for _ in range(2):
        gov.declare("length-again", exclusive=True)


def test_message_ttl(gov: Channel) -> None:
    gov.declare("ttl-q", exclusive=True)
    gov.publish("", "ttl-q")
    until(lambda: gov.depth("ttl-q") == 0, "the message to expire")


def test_only_one_policy_holds(gov: Channel) -> None:
    """The one of lower priority adds nothing, not even what the other leaves open."""
    gov.declare("prio-ttl", exclusive=True)
    gov.declare("ttl-clock", exclusive=True)
    gov.publish("", "prio-ttl")
    gov.publish("", "ttl-clock")
    until(lambda: gov.depth("ttl-clock") == 0, "time to pass")
    assert gov.depth("prio-ttl") == 1


def test_expires(gov: Channel) -> None:
    gov.declare("expires-q")
    gov.confirms()

    def gone() -> bool:
        """Asked without using the queue: a message that finds no queue comes back."""
        gov.publish("", "expires-q", mandatory=True)
        came_back = isinstance(gov.next().method, BasicReturn)
        assert gov.inbox or not came_back or gov.outcome() == "ack"
        return came_back

    until(gone, "the queue to expire")


def test_dead_letter_exchange(gov: Channel) -> None:
    letters = gov.declare(exclusive=True)
    gov.bind(letters, "amq.fanout")
    gov.declare("dlx-q", exclusive=True)
    gov.publish("", "dlx-q", b"x")
    received = gov.get("dlx-q", no_ack=False)
    assert received
    gov.reject(received)
    letter = until(lambda: gov.get(letters), "the letter")
    assert (letter.method.routing_key, letter.headers["x-death"][0]["queue"]) == ("grave", "dlx-q")


def test_dead_letters_of_a_limit(gov: Channel) -> None:
    gov.declare("letters", exclusive=True)
    gov.declare("dlxmax-q", exclusive=True)
    assert left(gov, "dlxmax-q", b"1", b"2") == [b"2"]
    until(lambda: gov.depth("letters") == 1, "the letter")


def test_alternate_exchange(gov: Channel) -> None:
    caught = gov.declare(exclusive=True)
    gov.bind(caught, "amq.fanout")
    gov.exchange("ae-x", auto_delete=True)
    gov.publish("ae-x", "k", b"caught", mandatory=True)
    assert gov.drain(caught) == [b"caught"]
    gov.expect_nothing()


def test_a_policy_for_exchanges_is_none_for_queues(gov: Channel) -> None:
    gov.exchange("length-x", auto_delete=True)
    gov.publish("length-x", "k", mandatory=True)
    gov.expect(BasicReturn)


def test_delivery_limit(scene: Scene, gov: Channel) -> None:
    gov.declare("limit-q", durable=True, arguments={"x-queue-type": "quorum"})
    gov.confirms()
    gov.publish("", "limit-q")
    assert gov.outcome() == "ack"
    for _ in range(2):
        received = until(lambda: gov.get("limit-q", no_ack=False), "the message")
        gov.reject(received, requeue=True)
    until(lambda: gov.depth("limit-q") == 0, "the message to be dropped")


def test_a_policy_set_and_cleared_later(governed: Target, gov: Channel) -> None:
    """It holds for queues already there, at once; what is too much is dropped."""
    gov.declare("later-q", exclusive=True)
    for body in (b"1", b"2", b"3"):
        gov.publish("", "later-q", body)
    governed.set_policy(VHOST, "later", "^later-", {"max-length": 1})
    until(lambda: gov.depth("later-q") == 1, "the queue to be cut")
    governed.set_policy(VHOST, "later", "^later-", {"max-length": 2}, priority=3)
    gov.publish("", "later-q", b"4")
    assert gov.depth("later-q") == 2
    governed.clear_policy(VHOST, "later")
    until(lambda: _grows(gov), "the queue to be free again")


def _grows(ch: Channel) -> bool:
    ch.publish("", "later-q")
    return ch.depth("later-q") > 2

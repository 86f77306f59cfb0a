"""Dead letters: why a message becomes one, where it goes, and what its headers then record."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from amqproxy.amqp091.methods import BasicAck, BasicConsume, BasicDeliver, BasicGet, QueueDelete, QueuePurge
from tests.behaviours.client import Channel, Closed, Received, until
from tests.behaviours.scene import Scene

pytestmark = pytest.mark.real


class Mortuary:
    """A queue whose dead letters go through `exchange` to another queue."""

    def __init__(self, scene: Scene, **arguments: Any) -> None:
        self.ch = scene.ch
        self.exchange = self.ch.exchange(scene.x, "topic", auto_delete=True)
        self.letters = self.ch.declare(scene.q2, exclusive=True)
        self.ch.bind(self.letters, self.exchange, "#")
        named = {name.replace("_", "-"): value for name, value in arguments.items()}
        self.queue = self.ch.declare(scene.q, arguments={"x-dead-letter-exchange": self.exchange, **named})
        scene.stack.callback(lambda: scene.channel().call(QueueDelete(queue=self.queue)))

    def die(self, body: bytes = b"x", **properties: Any) -> Received:
        """Publish and reject a message; the letter that comes of it."""
        self.ch.publish("", self.queue, body, **properties)
        received = self.ch.get(self.queue, no_ack=False)
        assert received
        self.ch.reject(received)
        return self.letter()

    def letter(self) -> Received:
        return until(lambda: self.ch.get(self.letters), "a dead letter")  # type: ignore[no-any-return]


# ------------------------------------------------------------------------------------------------------------ reasons


def rejected(m: Mortuary) -> None:
    m.ch.publish("", m.queue)
    received = m.ch.get(m.queue, no_ack=False)
    assert received
    m.ch.reject(received)


def nacked(m: Mortuary) -> None:
    m.ch.publish("", m.queue)
    assert m.ch.get(m.queue, no_ack=False)
    m.ch.nack(0, multiple=True, requeue=False)


def published(m: Mortuary) -> None:
    m.ch.publish("", m.queue)


def expiring(m: Mortuary) -> None:
    m.ch.publish("", m.queue, expiration="20")


@pytest.mark.parametrize(
    ("reason", "arguments", "kill"),
    [
        ("rejected", {}, rejected),
        ("rejected", {}, nacked),
        ("expired", {"x_message_ttl": 20}, published),
        ("expired", {}, expiring),
        ("maxlen", {"x_max_length": 0}, published),
        ("maxlen", {"x_max_length": 0, "x_overflow": "reject-publish-dlx"}, published),
    ],
    ids=["reject", "nack", "queue's TTL", "message's TTL", "drop-head", "reject-publish-dlx"],
)
def test_reasons(scene: Scene, reason: str, arguments: dict[str, Any], kill: Callable[[Mortuary], None]) -> None:
    m = Mortuary(scene, **arguments)
    kill(m)
    headers = m.letter().headers
    (death,) = headers["x-death"]
    assert isinstance(death.pop("time"), int)
    if "original-expiration" in death:
        assert death.pop("original-expiration") == "20"
    assert death == {"count": 1, "reason": reason, "queue": m.queue, "exchange": "", "routing-keys": [m.queue]}
    assert headers["x-first-death-reason"] == reason
    assert headers["x-first-death-queue"] == m.queue
    assert headers["x-first-death-exchange"] == ""


@pytest.mark.parametrize("end", ["purge", "delete", "ack"])
def test_no_death(scene: Scene, end: str) -> None:
    m = Mortuary(scene)
    m.ch.publish("", m.queue)
    if end == "purge":
        m.ch.call(QueuePurge(queue=m.queue))
    elif end == "delete":
        m.ch.call(QueueDelete(queue=m.queue))
    else:
        received = m.ch.get(m.queue, no_ack=False)
        assert received
        m.ch.ack(received)
    m.ch.expect_nothing(m.letters)
    assert m.ch.drain(m.letters) == []


def test_wire_types_of_a_death(scene: Scene) -> None:
    headers = Mortuary(scene).die(expiration="60000").properties.headers
    assert headers is not None
    death = headers["x-death"].items[0].value
    expected = [
        ("count", "l"),
        ("reason", "S"),
        ("queue", "S"),
        ("time", "T"),
        ("exchange", "S"),
        ("routing-keys", "A"),
    ]
    expiration = [("original-expiration", "S")]
    expected = expiration + expected if scene.profile.last_death else expected + expiration
    assert [(field.name, field.type) for field in death.fields] == expected
    which = ("first", "last") if scene.profile.last_death else ("first",)
    assert [field.name for field in headers.fields] == ["x-death"] + [
        f"x-{each}-death-{what}" for each in which for what in ("exchange", "queue", "reason")
    ]


# --------------------------------------------------------------------------------------------------- what it is like


def test_body_and_properties_stay(scene: Scene) -> None:
    letter = Mortuary(scene).die(b"body", message_id="m", delivery_mode=2, headers={"mine": 1})
    assert letter.body == b"body"
    assert (letter.properties.message_id, letter.properties.delivery_mode) == ("m", 2)
    assert letter.headers["mine"] == 1


def test_it_is_a_new_message(scene: Scene) -> None:
    m = Mortuary(scene)
    letter = m.die()
    assert (letter.method.exchange, letter.method.routing_key) == (m.exchange, m.queue)
    assert letter.method.redelivered is scene.profile.letters_redelivered


def test_a_routing_key_of_its_own(scene: Scene) -> None:
    m = Mortuary(scene, x_dead_letter_routing_key="grave")
    letter = m.die()
    assert letter.method.routing_key == "grave"
    assert letter.headers["x-death"][0]["routing-keys"] == [m.queue]


def test_expiration_is_taken_off(scene: Scene) -> None:
    """So that it does not expire in its next queue too."""
    m = Mortuary(scene)
    m.ch.publish("", m.queue, expiration="20")
    letter = m.letter()
    assert letter.properties.expiration is None
    assert letter.headers["x-death"][0]["original-expiration"] == "20"


def test_expiration_is_taken_off_whatever_the_reason(scene: Scene) -> None:
    letter = Mortuary(scene).die(expiration="60000")
    assert letter.properties.expiration is None
    assert letter.headers["x-death"][0]["original-expiration"] == "60000"


def test_copies_are_not_made_again_under_a_key_of_its_own(scene: Scene) -> None:
    """With a dead-letter routing key, CC is taken off; without one, the copies' keys count too."""
    m = Mortuary(scene, x_dead_letter_routing_key="grave")
    letter = m.die(headers={"CC": ["elsewhere"]})
    assert ("CC" in letter.headers) is not scene.profile.drops_cc
    assert letter.headers["x-death"][0]["routing-keys"] == [m.queue, "elsewhere"]


def test_copies_keep_their_keys(scene: Scene) -> None:
    m = Mortuary(scene)
    letter = m.die(headers={"CC": ["elsewhere"]})
    assert letter.headers["CC"] == ["elsewhere"]
    assert letter.headers["x-death"][0]["routing-keys"] == [m.queue, "elsewhere"]


def test_bcc_leaves_no_trace(scene: Scene) -> None:
    m = Mortuary(scene)
    letter = m.die(headers={"BCC": ["elsewhere"]})
    assert "BCC" not in letter.headers
    assert letter.headers["x-death"][0]["routing-keys"] == [m.queue]


def test_order_is_kept(scene: Scene) -> None:
    m = Mortuary(scene)
    for number in range(5):
        m.ch.publish("", m.queue, b"%d" % number)
        assert m.ch.get(m.queue, no_ack=False)
    m.ch.nack(0, multiple=True, requeue=False)
    assert [m.letter().body for _ in range(5)] == [b"0", b"1", b"2", b"3", b"4"]


# ------------------------------------------------------------------------------------------------- deaths add up


def test_a_second_death_counts(scene: Scene) -> None:
    """Deaths in the same queue for the same reason are one entry."""
    m = Mortuary(scene)
    first = m.die()
    second = m.die(headers=first.headers)
    (death,) = second.headers["x-death"]
    assert death["count"] == (2 if scene.profile.reads_deaths else 1)
    assert death["time"] >= first.headers["x-death"][0]["time"]


def test_another_reason_is_another_entry(scene: Scene) -> None:
    m = Mortuary(scene)
    first = m.die()
    m.ch.publish("", m.queue, headers=first.headers, expiration="10")
    headers = m.letter().headers
    deaths = [("expired", 1), ("rejected", 1)] if scene.profile.reads_deaths else [("expired", 1)]
    assert [(death["reason"], death["count"]) for death in headers["x-death"]] == deaths
    assert headers["x-first-death-reason"] == deaths[-1][0]


def test_the_latest_death_comes_first(scene: Scene) -> None:
    """An entry that counts again moves to the front."""
    m = Mortuary(scene)
    first = m.die()
    m.ch.publish("", m.queue, headers=first.headers, expiration="10")
    third = m.die(headers=m.letter().headers)
    deaths = [("rejected", 2), ("expired", 1)] if scene.profile.reads_deaths else [("rejected", 1)]
    assert [(death["reason"], death["count"]) for death in third.headers["x-death"]] == deaths


def test_deaths_in_a_row_of_queues(scene: Scene, ch: Channel) -> None:
    m = Mortuary(scene)
    ch.exchange(scene.x2, "fanout")
    last = ch.declare(exclusive=True)
    ch.bind(last, scene.x2)
    middle = ch.declare(exclusive=True, arguments={"x-dead-letter-exchange": scene.x2, "x-message-ttl": 10})
    ch.bind(middle, m.exchange, "#")
    m.die()
    letter = until(lambda: ch.get(last), "the last letter")
    assert [(death["queue"], death["reason"], death["exchange"]) for death in letter.headers["x-death"]] == [
        (middle, "expired", m.exchange),
        (m.queue, "rejected", ""),
    ]
    assert letter.headers["x-first-death-queue"] == m.queue


# --------------------------------------------------------------------------------------------------------- whereto


def test_the_order_of_many_deaths(scene: Scene, ch: Channel) -> None:
    """RabbitMQ 3 reverses the earlier ones with each death, since it merges them."""
    queues = [scene.name(f"row{number}") for number in range(5)]
    ch.declare(queues[-1], exclusive=True)
    for queue, following in pairwise(queues):
        letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": following}
        ch.declare(queue, exclusive=True, arguments={"x-max-length": 0, **letters})
    ch.publish("", queues[0])
    letter = until(lambda: ch.get(queues[-1]), "the dead letter")
    places = [queues.index(death["queue"]) for death in letter.headers["x-death"]]
    assert places == ([3, 1, 0, 2] if scene.profile.reads_deaths else [3, 2, 1, 0])


def test_no_such_exchange(ch: Channel) -> None:
    queue = ch.declare(exclusive=True, arguments={"x-dead-letter-exchange": "nowhere"})
    ch.publish("", queue)
    received = ch.get(queue, no_ack=False)
    assert received
    ch.reject(received)
    ch.expect_nothing(queue)
    assert ch.depth(queue) == 0


def test_the_default_exchange(ch: Channel, q: str) -> None:
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": q}
    queue = ch.declare(exclusive=True, arguments=arguments)
    ch.publish("", queue, b"over")
    received = ch.get(queue, no_ack=False)
    assert received
    ch.reject(received)
    until(lambda: ch.depth(q) == 1, "the letter")
    assert ch.drain(q) == [b"over"]


def test_nowhere_to_go_is_the_end_though_mandatory(scene: Scene, ch: Channel) -> None:
    queue = ch.declare(exclusive=True, arguments={"x-dead-letter-exchange": "amq.direct"})
    ch.publish("", queue, mandatory=True)
    received = ch.get(queue, no_ack=False)
    assert received
    ch.reject(received)
    ch.expect_nothing(queue)


def test_an_alternate_exchange_takes_letters_too(scene: Scene, ch: Channel, q: str) -> None:
    ch.exchange(scene.x2, "fanout")
    ch.bind(q, scene.x2)
    ch.exchange(scene.x, arguments={"alternate-exchange": scene.x2})
    queue = ch.declare(exclusive=True, arguments={"x-dead-letter-exchange": scene.x, "x-max-length": 0})
    ch.publish("", queue, b"x")
    until(lambda: ch.depth(q) == 1, "the letter")


# ------------------------------------------------------------------------------------- what others have written there


@pytest.mark.parametrize(
    ("older", "counts"),
    [
        ([(None, "q")], [("q", 1)]),
        ([(2, "q"), (3, "q")], [("q", 3)]),
        ([(None, "q"), (None, "q")], [("q", 3)]),
        ([(None, "q"), (None, "z")], [("q", 2), ("z", 1)]),
        ([(None, "z")], [("q", 1), ("z", None)]),
        ([(3, "q"), (None, "q"), (None, "z"), (5, "z")], [("q", 4), ("z", 2)]),
        ([(1, "a"), (2, "b"), (7, "q"), (1, "c")], [("q", 8), ("c", 1), ("b", 2), ("a", 1)]),
        ([(-5, "q")], [("q", -4)]),
    ],
)
def test_deaths_are_merged(scene: Scene, older: list[tuple[Any, str]], counts: list[tuple[str, Any]]) -> None:
    """By queue and reason: the first of each kind stays, in the reverse of their order, if there are several at all."""
    m = Mortuary(scene)
    name = {"q": m.queue}
    deaths = [
        {"queue": name.get(queue, queue), "reason": "rejected"} | ({} if count is None else {"count": count})
        for count, queue in older
    ]
    letter = m.die(headers={"x-death": deaths})
    found = [(each["queue"], each.get("count")) for each in letter.headers["x-death"]]
    counts = counts if scene.profile.reads_deaths else [("q", 1)]
    assert found == [(name.get(queue, queue), count) for queue, count in counts]


@pytest.mark.parametrize("no_ack", [True, False])
@pytest.mark.parametrize("is_asked", [True, False])
def test_a_letter_whose_key_cannot_be_sent(scene: Scene, no_ack: bool, is_asked: bool) -> None:
    """It costs its receiver's connection, and no other; without an ack it is gone then."""
    exchange = scene.ch.exchange(scene.x, "fanout", auto_delete=True)
    scene.ch.declare(scene.q2)
    scene.stack.callback(lambda: scene.channel().call(QueueDelete(queue=scene.q2)))
    scene.ch.bind(scene.q2, exchange)
    arguments = {"x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": "k" * 256}
    queue = scene.ch.declare(exclusive=True, arguments=arguments)
    scene.ch.publish("", queue)
    received = scene.ch.get(queue, no_ack=False)
    assert received
    scene.ch.reject(received)
    until(lambda: scene.ch.depth(scene.q2) == 1, "the letter")
    receiver = scene.channel()
    receiver.send(BasicGet(queue=scene.q2, no_ack=no_ack) if is_asked else BasicConsume(queue=scene.q2, no_ack=no_ack))
    with pytest.raises(Closed, match=r"^connection 541 0\.0 INTERNAL_ERROR$"):
        receiver.wait_for(BasicDeliver)
    until(lambda: scene.ch.depth(scene.q2) == (0 if no_ack else 1), "the letter to come back, or not")


# ---------------------------------------------------------------------------------------------------------- circles


def test_a_circle_without_a_reject_is_cut(ch: Channel) -> None:
    """A message that would come back by itself to a queue in which it died is dropped."""
    queue = ch.declare(exclusive=True, arguments={"x-dead-letter-exchange": "", "x-message-ttl": 20})
    ch.publish("", queue)
    until(lambda: ch.depth(queue) == 0, "the message to expire")
    ch.expect_nothing(queue)
    assert ch.depth(queue) == 0


def test_a_circle_of_two_is_cut(scene: Scene, ch: Channel) -> None:
    first, second = scene.q, scene.q2
    letters = ch.declare(exclusive=True)
    for queue, other in ((first, second), (second, first)):
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": other, "x-message-ttl": 20}
        ch.declare(queue, exclusive=True, arguments=arguments)
    ch.publish("", first)
    until(lambda: ch.depth(first) + ch.depth(second) == 0, "the message to be dropped")
    assert ch.depth(letters) == 0


def test_a_circle_with_a_reject_goes_on(ch: Channel) -> None:
    queue = ch.declare(exclusive=True, arguments={"x-dead-letter-exchange": ""})
    ch.publish("", queue)
    for count in range(3):
        received = until(lambda: ch.get(queue, no_ack=False), "the message to come back")
        assert [death["count"] for death in received.headers.get("x-death", [])] == ([count] if count else [])
        ch.reject(received)


# ------------------------------------------------------------------------------------------------ with the others


def test_a_publisher_is_confirmed_whatever_becomes_of_the_message(scene: Scene) -> None:
    m = Mortuary(scene, x_max_length=0)
    m.ch.confirms()
    m.ch.publish("", m.queue)
    m.ch.expect(BasicAck, delivery_tag=1)
    assert m.letter().headers["x-death"][0]["reason"] == "maxlen"


def test_requeue_is_no_death(scene: Scene) -> None:
    m = Mortuary(scene)
    m.ch.publish("", m.queue)
    received = m.ch.get(m.queue, no_ack=False)
    assert received
    m.ch.reject(received, requeue=True)
    again = m.ch.get(m.queue)
    assert again
    assert "x-death" not in again.headers

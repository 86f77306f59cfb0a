"""Dead letters: their headers, their routes, and the routes that they may not take."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicReject,
    ConfirmSelect,
    ExchangeDeclare,
)
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.amqp091.wire import Array, Field, Item, Table
from amqproxy.broker import dead_letter_publisher as publisher_module
from amqproxy.broker.message import Message
from amqproxy.broker.queues.dead_letters import dead_lettered, passed
from amqproxy.broker.queues.policies import make_policy
from amqproxy.broker.queues.queue import Queue
from amqproxy.rabbitmq.profile import Profile
from tests.broker.client import Client, connected, noted
from tests.broker.yard import Yard, message

NOW = 1234.7


def dead(reason: str = "rejected", /, arguments: dict[str, Any] | None = None, **properties: Any) -> Any:
    """The message as queue q, with these arguments, passes it on."""
    queue = Yard().queue(**{"dead_letter_exchange": "dlx", **(arguments or {})})
    return dead_lettered(queue, message("body", exchange="x", key="k", **properties), reason, NOW)[0]


def shape(table: Table) -> list[tuple[str, str, Any]]:
    return [(field.name, field.type, plain(field.value)) for field in table.fields]


def plain(value: Any) -> Any:
    if isinstance(value, Table):
        return {name: plain(each) for name, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, Array) else value


def death(count: int, queue: str, reason: str) -> Item:
    return Item("F", Table([Field("count", "l", count), Field("queue", "S", queue), Field("reason", "S", reason)]))


def test_first_death() -> None:
    letter = dead("expired", message_id="m", expiration="50", headers={"zz": 1, "CC": ["c"], "aa": 2})
    assert (letter.exchange, letter.routing_key, letter.body) == ("dlx", "k", b"body")
    assert (letter.properties.expiration, letter.properties.message_id) == (None, "m")
    assert shape(letter.properties.headers) == [
        ("CC", "A", ["c"]),
        ("aa", "I", 2),
        (
            "x-death",
            "A",
            [
                {
                    "count": 1,
                    "reason": "expired",
                    "queue": "q",
                    "time": 1234,
                    "exchange": "x",
                    "routing-keys": ["k", "c"],
                    "original-expiration": "50",
                }
            ],
        ),
        ("x-first-death-exchange", "S", "x"),
        ("x-first-death-queue", "S", "q"),
        ("x-first-death-reason", "S", "expired"),
        ("zz", "I", 1),
    ]


def test_wire_types_of_a_death() -> None:
    (item,) = dead(expiration="50").properties.headers["x-death"].items
    assert item.type == "F"
    assert [(field.name, field.type) for field in item.value.fields] == [
        ("count", "l"),
        ("reason", "S"),
        ("queue", "S"),
        ("time", "T"),
        ("exchange", "S"),
        ("routing-keys", "A"),
        ("original-expiration", "S"),
    ]


def test_further_deaths_are_counted_with_their_like_and_come_first() -> None:
    older = [death(4, "other", "expired"), death(2, "q", "rejected"), death(1, "q", "maxlen")]
    headers = dead(headers={"x-death": older}).properties.headers
    assert plain(headers["x-death"]) == [
        {"count": 3, "queue": "q", "reason": "rejected"},
        {"count": 1, "queue": "q", "reason": "maxlen"},
        {"count": 4, "queue": "other", "reason": "expired"},
    ]
    assert "x-first-death-queue" not in headers


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
        ([(2**63 - 1, "q")], [("q", 2**63 - 1)]),
        ([("many", "q")], [("q", 1)]),
    ],
)
def test_deaths_from_elsewhere_are_merged(older: list[tuple[Any, str]], counts: list[tuple[str, Any]]) -> None:
    """As RabbitMQ does it, but for the last two: there its count begins anew at the lowest number, and it crashes."""
    deaths = [
        Item("F", Table(({} if count is None else {"count": count}) | {"queue": queue, "reason": "rejected"}))
        for count, queue in older
    ]
    found = plain(dead(headers={"x-death": deaths}).properties.headers["x-death"])
    assert [(each["queue"], each.get("count")) for each in found] == counts


def test_what_is_no_death_stays_among_them() -> None:
    odd = [Item("S", "text"), Item("F", Table({"foo": 1})), Item("F", Table({"queue": 5, "reason": Table()}))]
    found = plain(dead(headers={"x-death": odd}).properties.headers["x-death"])
    assert found[1:] == [{"count": 1, "queue": 5, "reason": {}}, {"count": 1, "foo": 1}, "text"]


def test_what_is_no_list_of_deaths_is_replaced() -> None:
    headers = dead(headers={"x-death": "bad", "x-first-death-queue": "mine"}).properties.headers
    assert len(headers["x-death"]) == 1
    assert headers["x-first-death-queue"] == "mine"


def test_another_routing_key() -> None:
    """It takes the place of all, CC's too."""
    letter = dead("maxlen", {"dead_letter_routing_key": "r"}, headers={"CC": ["c"]})
    assert (letter.routing_key, letter.more_keys) == ("r", ())
    assert "CC" not in letter.properties.headers
    assert plain(letter.properties.headers["x-death"])[0]["routing-keys"] == ["k", "c"]


@pytest.mark.parametrize(
    ("deaths", "reason", "goes"),
    [
        ([], "expired", True),
        ([("q", "expired")], "expired", False),
        ([("q", "expired")], "rejected", True),
        ([("q", "maxlen"), ("other", "rejected")], "maxlen", False),
        ([("other", "rejected"), ("q", "expired")], "expired", True),
        ([("other", "expired"), ("q", "rejected")], "expired", True),
        ([("other", "expired"), ("q", "delivery_limit")], "expired", False),
        ([("other", "expired")], "expired", True),
    ],
)
def test_cycles(deaths: list[tuple[str, str]], reason: str, goes: bool) -> None:
    headers = Table({"x-death": [death(1, name, why) for name, why in deaths]})
    assert ("q" not in passed(headers.fields, reason)) is goes


def test_letters_that_are_alike_are_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though their bodies are of different lengths; and each time when anything of them differs that counts."""
    written = []
    encode = ContentHeader.encode
    monkeypatch.setattr(ContentHeader, "encode", lambda self: written.append(self) or encode(self))
    queue = Yard().queue(dead_letter_exchange="dlx")
    sent = [message(body, key="once", message_id="alike") for body in ("a", "b", "longer")]
    written.clear()
    letters = [dead_lettered(queue, each, "expired", NOW)[0] for each in sent]
    assert len(written) == 1
    assert [int.from_bytes(letter.header[4:12]) for letter in letters] == [1, 1, 6]
    assert len({letter.header[12:] for letter in letters}) == 1
    others = [
        dead_lettered(queue, message("a", key="another", message_id="alike"), "expired", NOW),
        dead_lettered(queue, message("a", exchange="x", key="once", message_id="alike"), "expired", NOW),
        dead_lettered(queue, message("a", key="once"), "expired", NOW),
        dead_lettered(queue, sent[0], "maxlen", NOW),
        dead_lettered(queue, sent[0], "expired", NOW + 1),
        dead_lettered(Yard().queue(dead_letter_exchange="x", dead_letter_routing_key="k"), sent[0], "expired", NOW),
    ]
    assert len({letter.header for letter, _ in others} | {letters[0].header}) == 6, "the routing key is not in it"


# --- on their way through a virtual host


@pytest.fixture
def client() -> Client:
    return connected()


def headers(client: Client, queue: str) -> dict[str, Any] | None:
    client.send(1, BasicGet(queue=queue, no_ack=True))
    (received,) = client.receive()
    return plain(received.properties.headers) if received.method.name == "basic.get-ok" else None


def deaths(client: Client, queue: str) -> list[tuple[str, str, int]]:
    found = headers(client, queue) or {"x-death": []}
    return [(each["queue"], each["reason"], each["count"]) for each in found["x-death"]]


def test_by_its_own_key_or_the_queues(client: Client) -> None:
    client.declare("grave")
    client.declare("a", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "grave"})
    client.publish("", "a")
    client.answers(BasicGet(queue="a"), BasicReject(1, False))
    assert deaths(client, "grave") == [("a", "rejected", 1)]


def test_no_such_exchange(client: Client) -> None:
    client.declare("a", arguments={"x-dead-letter-exchange": "nowhere"})
    client.publish("", "a")
    assert client.answers(BasicGet(queue="a"), BasicReject(1, False)) == ""


def test_round_and_round(client: Client) -> None:
    """Where it only expires it stops; where a consumer rejects it, it goes on, and is counted."""
    client.declare("work", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait"})
    client.declare(
        "wait", arguments={"x-message-ttl": 100, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work"}
    )
    client.publish("", "work")
    for _ in range(3):
        client.send(1, BasicGet(queue="work"))
        (received,) = client.receive()
        client.send(1, BasicReject(received.method.delivery_tag, False))
        assert client.depth("wait") == 1
        client.now += 0.1
        client.broker.tick(client.now)
    assert deaths(client, "work") == [("wait", "expired", 3), ("work", "rejected", 3)]
    client.publish("", "wait")
    client.now += 0.1
    client.broker.tick(client.now)
    assert client.depth("work") == 1


def test_a_fully_automatic_cycle_ends(client: Client) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        client.declare(
            name, arguments={"x-message-ttl": 0, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": other}
        )
    client.publish("", "a")
    assert (client.depth("a"), client.depth("b")) == (0, 0)


def test_a_long_chain_is_no_deep_recursion(client: Client) -> None:
    count = 300
    for number in range(count):
        client.declare(
            f"q{number}",
            arguments={"x-max-length": 0, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"q{number + 1}"},
        )
    client.declare(f"q{count}")
    client.publish("", "q0")
    assert client.depth(f"q{count}") == 1


def test_policy(client: Client) -> None:
    client.declare("grave")
    client.declare("a")
    policy = make_policy("p", "^a$", {"dead-letter-exchange": "", "dead-letter-routing-key": "grave", "max-length": 1})
    vhost = client.broker.vhosts["/"]
    client.publish("", "a", b"1")
    client.publish("", "a", b"2")
    vhost.set_policy(policy, client.now)
    assert deaths(client, "grave") == [("a", "maxlen", 1)]
    assert vhost.queues["a"].policy_names == ("p", None)
    vhost.clear_policy("p", client.now)
    client.publish("", "a", b"3")
    assert (client.depth("a"), client.depth("grave")) == (2, 0)


def test_to_a_queue_that_refuses(client: Client) -> None:
    """No client is notified, and the first publisher least of all."""
    client.declare("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    client.declare(
        "a", arguments={"x-max-length": 0, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "full"}
    )
    client.ask(ConfirmSelect())
    assert client.publish("", "a") == BasicAck.name
    assert client.depth("full") == 0


def letters_to_come(client: Client, key: str) -> None:
    """Queue `a` lets its messages go to queue `grave`, under this key."""
    client.declare("grave")
    client.ask(ExchangeDeclare(exchange="dlx", type="fanout"))
    client.bind("grave", "dlx")
    client.declare("a", arguments={"x-dead-letter-exchange": "dlx", "x-dead-letter-routing-key": key})


def test_a_letter_that_cannot_be_delivered_costs_its_receivers_connection(client: Client) -> None:
    """And neither the one that rejected it nor the next letter, and it stays where it is."""
    letters_to_come(client, "k" * 256)
    receiver, getter = connected(client.broker), connected(client.broker)
    receiver.ask(BasicConsume(queue="grave"))
    client.publish("", "a", b"1")
    assert client.answers(BasicGet(queue="a"), BasicReject(1, False)) == ""
    client.broker.tick(client.now)
    assert receiver.transcript() == "connection 541 0.0 INTERNAL_ERROR"
    assert client.depth("grave") == 1
    getter.send(1, BasicGet(queue="grave"))
    client.broker.tick(client.now)
    assert getter.transcript() == "connection 541 0.0 INTERNAL_ERROR"
    assert client.depth("grave") == 1
    client.publish("", "a", b"2")
    assert client.answers(BasicGet(queue="a"), BasicReject(2, False)) == ""
    assert client.depth("grave") == 2
    assert client.broker.events.failures == 2


def test_a_letter_that_a_publish_lets_go_costs_its_receivers_connection(client: Client) -> None:
    letters_to_come(client, "k" * 256)
    vhost = client.broker.vhosts["/"]
    vhost.set_policy(make_policy("p", "^a$", {"max-length": 0}), client.now)
    receiver = connected(client.broker)
    receiver.ask(BasicConsume(queue="grave"))
    client.ask(ConfirmSelect())
    assert client.publish("", "a") == BasicAck.name
    client.broker.tick(client.now)
    assert receiver.transcript() == "connection 541 0.0 INTERNAL_ERROR"
    assert client.depth("grave") == 1


def test_a_letter_that_cannot_be_made_costs_itself(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is reported, and those behind it go their way."""
    letters_to_come(client, "k")
    made = publisher_module.dead_lettered

    def fails(
        queue: Queue, message: Message, reason: str, now: float, profile: Profile
    ) -> tuple[Message, frozenset[str]]:
        if message.body == b"1":
            raise RuntimeError("on purpose")
        return made(queue, message, reason, now, profile)

    monkeypatch.setattr(publisher_module, "dead_lettered", fails)
    failures = noted(client.broker)
    for body in (b"1", b"2"):
        client.publish("", "a", body)
    client.answers(BasicGet(queue="a"), BasicGet(queue="a"))
    assert client.answers(BasicNack(0, True, False)) == ""
    assert client.depth("grave") == 1
    client.publish("", "a", b"3")
    assert client.answers(BasicGet(queue="a"), BasicReject(3, False)) == ""
    assert client.depth("grave") == 2
    assert [(event, fields["queue"], fields["why"]) for event, fields in failures] == [
        ("dead letter lost", "a", "rejected")
    ]


def test_a_count_without_a_next_is_no_end_of_dead_letters(client: Client) -> None:
    letters_to_come(client, "k")
    full = Table({"count": 2**63 - 1, "queue": "a", "reason": "rejected"})
    client.publish("", "a", headers={"x-death": Array([Item("F", full)])})
    client.publish("", "a")
    assert client.answers(BasicGet(queue="a"), BasicGet(queue="a"), BasicNack(0, True, False)) == ""
    assert deaths(client, "grave") == [("a", "rejected", 2**63 - 1)]
    assert deaths(client, "grave") == [("a", "rejected", 1)]


def test_many_at_once(client: Client) -> None:
    client.declare("grave")
    client.declare("a", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "grave"})
    for _ in range(5):
        client.publish("", "a")
        client.answers(BasicGet(queue="a"))
    assert client.answers(BasicNack(0, True, False)) == ""
    assert client.depth("grave") == 5


def test_a_copy_under_a_key_that_no_publish_can_have(client: Client) -> None:
    """CC may have such keys, as with RabbitMQ: they route, and stand in x-death and by the firehose."""
    long = "c" * 300
    letters_to_come(client, "k")
    client.broker.vhosts["/"].trace(True)
    client.declare("trace")
    client.bind("trace", "amq.rabbitmq.trace", "#")
    client.publish("", "a", headers={"CC": [long, "nowhere"]}, mandatory=True)
    assert client.answers(BasicGet(queue="a"), BasicReject(1, False)) == ""
    found = headers(client, "grave")
    assert found is not None
    assert found["x-death"][0]["routing-keys"] == ["a", long, "nowhere"]
    assert headers(client, "trace") is not None
    assert client.broker.events.failures == 0

"""What becomes of a message that a queue lets go: its headers, its way, and the ways it may not go."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp091.methods import BasicAck, BasicGet, BasicNack, BasicReject, ConfirmSelect
from amqproxy.amqp091.wire import Array, Field, Item, Table
from amqproxy.broker.dead_letters import dead_lettered, without_cycles
from tests.broker.client import Client, connected
from tests.broker.yard import Yard, message

NOW = 1234.7


def dead(reason: str = "rejected", /, arguments: dict[str, Any] | None = None, **properties: Any) -> Any:
    """The message as queue q, with these arguments, passes it on."""
    queue = Yard().queue(**{"dead_letter_exchange": "dlx", **(arguments or {})})
    return dead_lettered(queue, message("body", exchange="x", key="k", **properties), reason, NOW)


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
        {"count": 4, "queue": "other", "reason": "expired"},
        {"count": 1, "queue": "q", "reason": "maxlen"},
    ]
    assert "x-first-death-queue" not in headers


def test_twins_from_elsewhere_are_counted_as_one() -> None:
    headers = dead(headers={"x-death": [death(2, "q", "rejected"), death(3, "q", "rejected")]}).properties.headers
    assert plain(headers["x-death"]) == [{"count": 6, "queue": "q", "reason": "rejected"}]


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
    queue = Yard().queue()
    letter = message(headers={"x-death": [death(1, name, why) for name, why in deaths]})
    assert without_cycles([queue], letter, reason) == ([queue] if goes else [])


# --- on their way through a virtual host


@pytest.fixture
def client() -> Client:
    return connected()


def headers(client: Client, queue: str) -> dict[str, Any] | None:
    client.say(1, BasicGet(queue=queue, no_ack=True))
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
    """Where it only expires it stops; where somebody rejects it, it goes on, and is counted."""
    client.declare("work", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait"})
    client.declare(
        "wait", arguments={"x-message-ttl": 100, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work"}
    )
    client.publish("", "work")
    for _ in range(3):
        client.say(1, BasicGet(queue="work"))
        (received,) = client.receive()
        client.say(1, BasicReject(received.method.delivery_tag, False))
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
    from amqproxy.broker.policies import make_policy

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
    """Nobody hears of it, and the first publisher least of all."""
    client.declare("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    client.declare(
        "a", arguments={"x-max-length": 0, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "full"}
    )
    client.ask(ConfirmSelect())
    assert client.publish("", "a") == BasicAck.name
    assert client.depth("full") == 0


def test_many_at_once(client: Client) -> None:
    client.declare("grave")
    client.declare("a", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "grave"})
    for _ in range(5):
        client.publish("", "a")
        client.answers(BasicGet(queue="a"))
    assert client.answers(BasicNack(0, True, False)) == ""
    assert client.depth("grave") == 5

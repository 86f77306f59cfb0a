"""x-consistent-hash: every message to one place, by weight, and to the same one as long as it is there."""

import itertools
from collections import Counter

import pytest

from amqproxy.amqp091.methods import ExchangeDeclare, QueueBind, QueueDeclare, QueueUnbind
from amqproxy.amqp091.wire import Table
from amqproxy.broker.exchanges.consistent_hash import jump
from tests.broker.client import Client, connected


def hashing(**arguments: object) -> Client:
    client = connected()
    client.ask(ExchangeDeclare(exchange="x", type="x-consistent-hash", arguments=Table(arguments)))
    return client


def where(client: Client, keys: range, **properties: object) -> dict[int, str]:
    """Which queue each key goes to."""
    found = {}
    queues = client.broker.vhosts["/"].queues
    for key in keys:
        client.publish("x", str(key), **properties)
        found[key] = next(name for name, queue in queues.items() if queue.message_count)
        queues[found[key]].purge()
    return found


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("abc", 'The binding key must be an integer: <<"abc">>'),
        ("", "The binding key must be an integer: <<>>"),
        ("0", "The binding key must be greater than 0"),
        ("-1", "The binding key must be greater than 0"),
        ("1000000000", "The binding key must not be greater than 10000"),
    ],
)
def test_weights_that_are_none(key: str, expected: str) -> None:
    answer = hashing().answers(QueueDeclare(queue="q"), QueueBind(queue="q", exchange="x", routing_key=key))
    assert answer == f"channel 406 queue.bind PRECONDITION_FAILED - {expected}"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"hash-header": "a", "hash-property": "message_id"}, "hash-header and hash-property are mutually exclusive"),
        ({"hash-property": "reply_to"}, "Unsupported property: reply_to"),
        ({"hash-header": 1}, "invalid type 'signedint' for arg 'hash-header' in exchange 'x' in vhost '/'"),
    ],
)
def test_arguments_that_cannot_be(arguments: dict[str, object], expected: str) -> None:
    declare = ExchangeDeclare(exchange="x", type="x-consistent-hash", arguments=Table(arguments))
    assert connected().answers(declare) == f"channel 406 exchange.declare PRECONDITION_FAILED - {expected}"


def test_weights_and_few_moves() -> None:
    client = hashing()
    for queue, weight in (("a", "1"), ("b", "1"), ("c", "2")):
        client.declare(queue)
        client.bind(queue, "x", weight)
    keys = range(2000)
    before = where(client, keys)
    counts = Counter(before.values())
    assert 400 < counts["a"] < 600
    assert 400 < counts["b"] < 600
    assert 850 < counts["c"] < 1150
    client.declare("d")
    client.bind("d", "x", "1")
    after = where(client, keys)
    assert all(after[key] in (before[key], "d") for key in keys)
    client.ask(QueueUnbind(queue="d", exchange="x", routing_key="1"))
    assert where(client, keys) == before


@pytest.mark.parametrize(
    ("arguments", "properties"),
    [
        ({"hash-header": "h"}, {"headers": {"h": "v"}}),
        ({"hash-property": "message_id"}, {"message_id": "m"}),
        ({"hash-header": "h"}, {}),
    ],
)
def test_other_things_to_hash(arguments: dict[str, object], properties: dict[str, object]) -> None:
    client = hashing(**arguments)
    for queue in ("a", "b", "c"):
        client.declare(queue)
        client.bind(queue, "x", "1")
    assert len(set(where(client, range(50), **properties).values())) == 1


def test_without_bindings() -> None:
    assert hashing().publish("x", "k", mandatory=True) == "basic.return"


def test_jump_moves_only_to_the_new_place() -> None:
    for key in range(500):
        places = [jump(key * 2**50 + key, count) for count in range(1, 30)]
        assert all(new in (old, number) for number, (old, new) in enumerate(itertools.pairwise(places), 1))

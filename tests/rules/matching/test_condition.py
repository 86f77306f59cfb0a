"""How much of a command the conditions of matches and expressions need."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import BasicPublish, QueueDeclare
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from amqproxy.rules.context import CommandContext
from amqproxy.rules.matching.attributes import AttributeSource
from amqproxy.rules.matching.condition import Condition
from amqproxy.rules.matching.filters import compiled
from amqproxy.rules.verdict import Stage
from tests.rules.scene import from_client, rule

PUBLISH = from_client(
    BasicPublish(exchange="orders", routing_key="eu"), Properties(headers=Table({"n": 5})), b'{"id": 7}'
)
OTHER = from_client(BasicPublish(exchange="audit", routing_key="eu"), Properties(headers=Table({"n": 4})), b"")
DECLARE = from_client(QueueDeclare(queue="orders"))


def of_match(text: str) -> Condition:
    (condition,) = rule(f'action = "allow"\nmatch = {text}').match.conditions()
    assert isinstance(condition, Condition)
    return condition


CASES = [
    (of_match('{exchange = "orders"}'), {"exchange"}, Stage.METHOD, PUBLISH, OTHER),
    (of_match('{headers = {n = "5"}}'), {"headers"}, Stage.HEADER, PUBLISH, OTHER),
    (compiled("exchange == 'orders'").condition, {"exchange"}, Stage.METHOD, PUBLISH, OTHER),
    (compiled("headers.n > 4").condition, {"headers"}, Stage.HEADER, PUBLISH, OTHER),
    (compiled("json.id == 7 && exchange == 'orders'").condition, {"json", "exchange"}, Stage.BODY, PUBLISH, OTHER),
    (compiled("queue == 'orders'").condition, {"queue"}, Stage.METHOD, DECLARE, PUBLISH),
]


@pytest.mark.parametrize(("condition", "reads", "stage", "true", "false"), CASES)
def test_what_it_reads_and_when_it_holds(
    condition: Condition, reads: set[str], stage: Stage, true: CommandContext, false: CommandContext
) -> None:
    assert condition.reads == reads
    assert condition.stage == stage
    assert condition.holds(true) is True
    assert condition.holds(false) is False


@pytest.mark.parametrize(
    ("condition", "source"),
    [
        (of_match('{user = "guest"}'), AttributeSource.CLIENT),
        (of_match('{exchange = "a*"}'), AttributeSource.METHOD),
        (compiled("user == 'guest' && exchange == 'a'").condition, AttributeSource.METHOD),
        (compiled("exchange == 'a' && headers.n == 1").condition, AttributeSource.CONTENT),
        (compiled("headers.n == 1 && channel.unacked == 0").condition, AttributeSource.MOMENT),
    ],
)
def test_it_depends_on_the_most_fleeting_of_what_it_reads(condition: Condition, source: AttributeSource) -> None:
    assert condition.source == source

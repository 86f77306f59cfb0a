"""The rules of a bridge change what RabbitMQ 4.3 refuses, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import Scope
from amqproxy.amqp091.frame import HEADER, Frame, encode_frame, encode_method
from amqproxy.amqp091.methods import BasicConsume, BasicPublish, BasicQos, ConnectionTuneOk, Method, QueueDeclare
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.amqp091.wire import Table
from amqproxy.rules.bridge import bridge_rules
from amqproxy.rules.context import Client, CommandContext
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.verdict import Close, Verdict
from tests.rules.scene import rule

RULES = bridge_rules("rabbitmq-4")
EXPIRES = {"x-queue-type": "classic", "x-expires": 86_400_000}


def bridged(method: Method) -> Verdict:
    command = Command(1, method)
    evaluator = RuleSet((), bridging=RULES).evaluator(Client())
    return evaluator.evaluate(CommandContext(sender=CLIENT, command=command, client=Client()))


def declare(**changes: Any) -> QueueDeclare:
    arguments = Table(changes.pop("arguments", {}))
    return QueueDeclare(**{"queue": "q", **changes}, arguments=arguments)


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (declare(), declare(durable=True, arguments=EXPIRES)),
        (declare(queue=""), declare(queue="", durable=True, arguments=EXPIRES)),
        (declare(queue="", auto_delete=True), declare(queue="", auto_delete=True, exclusive=True)),
        (declare(auto_delete=True), declare(auto_delete=True, durable=True, arguments=EXPIRES)),
        (
            declare(arguments={"x-expires": 5}),
            declare(durable=True, arguments={"x-expires": 5, "x-queue-type": "classic"}),
        ),
        (declare(durable=True, arguments={"x-queue-version": 1}), declare(durable=True)),
        (declare(durable=True, arguments={"x-queue-master-locator": "min-masters"}), declare(durable=True)),
        (declare(durable=True, arguments={"x-consumer-timeout": 5}), declare(durable=True)),
        (BasicQos(0, 5, True), BasicQos(0, 5, False)),
        (ConnectionTuneOk(10, 4096, 60), ConnectionTuneOk(10, 8192, 60)),
    ],
    ids=str,
)
def test_what_is_changed(sent: Method, expected: Method) -> None:
    command = bridged(sent).command
    assert command is not None
    assert encode_method(1, command.method) == encode_method(1, expected)


@pytest.mark.parametrize(
    "sent",
    [
        declare(passive=True),
        declare(durable=True),
        declare(exclusive=True),
        declare(durable=True, arguments={"x-queue-version": 2, "x-queue-mode": "lazy"}),
        declare(durable=True, arguments={"x-queue-type": "quorum", "x-consumer-timeout": 5}),
        BasicQos(0, 5, False),
        BasicConsume(queue="q"),
        BasicPublish(routing_key="q"),
        ConnectionTuneOk(10, 8192, 60),
        ConnectionTuneOk(10, 0, 60),
    ],
    ids=str,
)
def test_what_is_left_alone(sent: Method) -> None:
    verdict = bridged(sent)
    assert verdict.command is not None
    assert verdict.command.method is sent
    assert not verdict.marks


def test_messages_above_16_mib_are_refused() -> None:
    evaluator = RuleSet((), bridging=RULES).evaluator(Client())
    publish = Frame(encode_method(1, BasicPublish(routing_key="q")))
    closes = {}
    for size in (16_777_216, 16_777_217):
        command = Command.received([publish, Frame(encode_frame(HEADER, 1, ContentHeader(size).encode()))])
        closes[size] = evaluator.evaluate(CommandContext(sender=CLIENT, command=command, client=Client())).close
    text = "PRECONDITION_FAILED - message size 16777217 is larger than configured max size 16777216"
    assert closes == {16_777_216: None, 16_777_217: Close(Scope.CHANNEL, 406, text, CLIENT)}


def test_a_rule_of_the_same_name_replaces_one() -> None:
    own = rule(f'name = "{RULES[0].name}"\naction = "log"')
    rules = RuleSet([own], bridging=RULES)
    assert rules.rules == (own, *RULES[1:])
    assert rules.replaced(()).rules == RULES


def test_clients_of_amqp_1_0_pass() -> None:
    assert not RuleSet((), bridging=RULES).must_read

"""Rewrite rules, and what they make of commands in both directions."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp091.methods import Method
from amqproxy.amqp091.properties import Properties
from amqproxy.rules.context import Client
from amqproxy.rules.engine.evaluator import RuleEvaluator, RuleSet
from amqproxy.rules.rule import Rule
from tests.rules.scene import GUEST, Shelf, from_client, from_server, rule

TENANT = """
action = "rewrite"
exchange.prefix = "{user}."
queue.prefix = "{user}."
consumer_tag.prefix = "{user}."
"""


def rewrite(text: str, shelf: Shelf | None = None, **keys: Any) -> Any:
    return rule('action = "rewrite"\n' + text, shelf, **keys)


def to_broker(evaluator: RuleEvaluator, method: Method, properties: Properties | None = None, body: bytes = b"") -> Any:
    """The command that the broker receives for one of the client."""
    command = evaluator.evaluate(from_client(method, properties or Properties(), body, client=evaluator.client)).command
    assert command is not None
    return command


def to_client(evaluator: RuleEvaluator, method: Method, properties: Properties | None = None, body: bytes = b"") -> Any:
    """The command that the client receives for one of the broker."""
    command = evaluator.evaluate(from_server(method, properties or Properties(), body, client=evaluator.client)).command
    assert command is not None
    return command


def evaluator_of(*rules: Rule, client: Client = GUEST) -> RuleEvaluator:
    return RuleSet(rules).evaluator(client)

"""What is masked in records, captures and logs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from amqproxy.amqp091.methods import (
    BasicDeliver,
    BasicPublish,
    ConnectionStartOk,
    ExchangeBind,
    Method,
    QueueDeclare,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from amqproxy.rules.context import CommandContext
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.verdict import Stage, Verdict
from tests.rules.scene import GUEST, decided, from_client, from_server, rule

SECRETS = Properties(user_id="u", type="t", headers=Table({"authorization": "Bearer x", "n": 1}))


def redact(text: str, **keys: Any) -> Any:
    return rule('action = "redact"\n' + text, **keys)


def shown(text: str, context: CommandContext) -> Any:
    """What taps see; on the wire nothing changes."""
    verdict = decided(redact(text), context)
    assert verdict.command is context.command
    assert verdict == Verdict(command=context.command, shown=verdict.shown)
    return verdict.shown


@pytest.mark.parametrize(
    ("text", "properties", "body"),
    [
        (
            "headers = ['auth*']",
            Properties(user_id="u", type="t", headers=Table({"authorization": "***", "n": 1})),
            b'{"a":1}',
        ),
        ("properties = ['user_id']", Properties(user_id="***", type="t", headers=SECRETS.headers), b'{"a":1}'),
        ("body = true", SECRETS, b"***"),
        ("json = ['/a']\nmask = '#'", SECRETS, b'{"a":"#"}'),
        ("text = ['[0-9]+', 'a']", SECRETS, b'{"***":***}'),
        ("text = ['1']\nmask = '\\1'", SECRETS, b'{"a":\\1}'),
        (
            "headers = ['n']\nproperties = ['type']\nbody = true",
            Properties(user_id="u", type="***", headers=Table({"authorization": "Bearer x", "n": "***"})),
            b"***",
        ),
    ],
)
def test_messages(text: str, properties: Properties, body: bytes) -> None:
    for context in (
        from_client(BasicPublish(exchange="e"), SECRETS, b'{"a":1}'),
        from_server(BasicDeliver("t", 1), SECRETS, b'{"a":1}'),
    ):
        command = shown(text, context)
        assert (command.method, command.properties, command.body) == (context.command.method, properties, body)
        assert command.is_complete


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        (
            "arguments = ['x-secret']",
            QueueDeclare(queue="q", arguments=Table({"x-secret": 1, "a": 2})),
            QueueDeclare(queue="q", arguments=Table({"x-secret": "***", "a": 2})),
        ),
        (
            "arguments = ['token']",
            ConnectionStartOk(Table({"token": "x"}), response=b"r"),
            ConnectionStartOk(Table({"token": "***"}), response=b"r"),
        ),
        (
            "fields = ['routing_key']",
            BasicPublish(exchange="e", routing_key="k"),
            BasicPublish(exchange="e", routing_key="***"),
        ),
        (
            "fields = ['source', 'routing_key']",
            ExchangeBind(destination="d", source="s"),
            ExchangeBind(destination="d", source="***"),
        ),
    ],
)
def test_methods(text: str, before: Method, after: Method) -> None:
    context = from_client(before)
    assert shown(text, context).method == after


@pytest.mark.parametrize(
    ("text", "context"),
    [
        ("headers = ['none']", from_client(BasicPublish(), SECRETS)),
        ("headers = ['n']", from_client(BasicPublish())),
        ("body = true", from_client(BasicPublish())),
        ("json = ['/none']", from_client(BasicPublish(), body=b'{"a": 1}')),
        ("arguments = ['a']", from_client(QueueDeclare())),
        ("fields = ['routing_key']", from_client(BasicPublish())),
        ("properties = ['user_id']", from_client(QueueDeclare(queue="q"))),
    ],
)
def test_where_there_is_nothing_to_cover_nothing_is_made(text: str, context: CommandContext) -> None:
    assert shown(text, context) is None


@pytest.mark.parametrize(("text", "body"), [("json = ['/card']", b"card=1234"), ("text = ['[0-9]']", b"\xff1234")])
def test_what_cannot_be_searched_is_covered_whole(text: str, body: bytes) -> None:
    assert shown(text, from_client(BasicPublish(), body=body)).body == b"***"


def test_several_rules_cover_together() -> None:
    evaluator = RuleSet([redact("headers = ['n']", name="a"), redact("body = true", name="b")]).evaluator(GUEST)
    context = from_client(BasicPublish(), SECRETS, b"x")
    verdict = evaluator.evaluate(context)
    assert verdict.command is context.command
    assert verdict.shown is not None
    assert verdict.shown.body == b"***"
    assert dict(verdict.shown.properties.headers or {}) == {"authorization": "Bearer x", "n": "***"}


@pytest.mark.parametrize(
    ("text", "needs"),
    [("arguments = ['a']", Stage.METHOD), ("headers = ['a']", Stage.HEADER), ("text = ['a']", Stage.BODY)],
)
def test_how_much_it_needs(text: str, needs: Stage) -> None:
    assert redact(text).needs is needs


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "masks nothing"),
        ("json = ['card']", "not a JSON pointer"),
        ("text = ['(']", "not a regular expression"),
        ("fields = ['delivery_tag']", "`delivery_tag` cannot be masked"),
        ("properties = ['token']", "no message has such a property"),
        ("body = true\nmask = ''", "length >= 1"),
        ("body = true\nmask = 'é'", "regex"),
        ("match.method = 'queue.declare'\nbody = true", "nothing to mask in queue.declare"),
    ],
)
def test_what_makes_no_sense_is_not_loaded(text: str, reason: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=reason):
        redact(text)


def test_a_body_too_large_to_be_looked_into_is_masked_whole() -> None:
    context = from_client(BasicPublish(exchange="e"), body=b'{"a": 1, "b": 2}', body_limit=10)
    for text in ('json = ["/a"]', 'text = ["1"]'):
        assert shown(text, context).body == b"***"

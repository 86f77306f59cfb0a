"""Lines for the log."""

from __future__ import annotations

import msgspec
import pytest

from amqproxy.amqp010.methods import BY_INDEX as AMQP010_METHODS
from amqproxy.amqp091.methods import (
    BY_INDEX,
    BasicPublish,
    ConnectionSecureOk,
    ConnectionStartOk,
    ConnectionUpdateSecret,
    QueueDeclare,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.rules.context import CommandContext
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.matching.attributes import SECRETS
from amqproxy.rules.observing.log import MAX_TEXT
from amqproxy.rules.verdict import Stage, Verdict
from tests.rules.commands import command, evaluated
from tests.rules.scene import GUEST, decided, from_client, rule


@pytest.mark.parametrize(
    ("text", "context", "logged"),
    [
        ("", from_client(QueueDeclare(queue="q")), ("info", "client queue.declare")),
        (
            "text = '{rule}: {user} declares {queue}'",
            from_client(QueueDeclare(queue="q")),
            ("info", "r: guest declares q"),
        ),
        ("level = 'warning'\ntext = '{size}: {body}'", from_client(BasicPublish(), body=b"abc"), ("warning", "3: abc")),
        ("text = '{properties.type}'", from_client(BasicPublish(), Properties(type="t")), ("info", "t")),
        ("text = '{body}'", from_client(BasicPublish(), body=b"x" * 10_000), ("info", "x" * (MAX_TEXT - 1) + "…")),
    ],
)
def test_a_line_is_logged(text: str, context: CommandContext, logged: tuple[str, str]) -> None:
    assert decided(rule('action = "log"\n' + text), context) == Verdict(command=context.command, logged=(logged,))


def test_no_secret_is_ever_logged() -> None:
    declared = {each.secret for each in BY_INDEX} | {each.secret for each in AMQP010_METHODS}
    assert declared - {""} == SECRETS == {"response", "new_secret"}
    made = rule('action = "log"\ntext = "{fields} {fields.response} {fields.new_secret}"')
    for method in (
        ConnectionStartOk(response=b"\0guest\0s3cret"),
        ConnectionSecureOk(b"s3cret"),
        ConnectionUpdateSecret(b"s3cret", "r"),
    ):
        [(_, text)] = decided(made, from_client(method)).logged
        assert "s3cret" not in text


@pytest.mark.parametrize(
    ("text", "needs"), [("", Stage.METHOD), ("text = '{headers.a}'", Stage.HEADER), ("text = '{json.a}'", Stage.BODY)]
)
def test_how_much_it_needs(text: str, needs: Stage) -> None:
    assert rule('action = "log"\n' + text).needs is needs


@pytest.mark.parametrize("text", ["text = '{nobody}'", "level = 'loud'", "text = '{'"])
def test_what_makes_no_sense_is_not_loaded(text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        rule('action = "log"\n' + text)


@pytest.mark.parametrize("is_before", [True, False])
def test_a_line_shows_only_what_redactions_leave(is_before: bool) -> None:
    log = rule('action = "log"\nname = "log"\ntext = "{routing_key} {client.properties.product} {user}"')
    redact = rule('action = "redact"\nname = "redact"\nfields = ["routing_key"]\narguments = ["product"]')
    evaluator = RuleSet([redact, log] if is_before else [log, redact]).evaluator(GUEST)
    verdict = evaluated(evaluator, command(BasicPublish(exchange="e", routing_key="s3cret")))
    assert verdict.logged == (("info", "*** *** guest"),)
    assert verdict.command is not None
    assert verdict.command.method.routing_key == "s3cret"
    assert evaluator.shown_client.properties == GUEST.properties | {"product": "***"}

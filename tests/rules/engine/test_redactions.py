"""What taps, and rules that show commands to people, see of them."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import HEARTBEAT_FRAME, Frame
from amqproxy.amqp091.methods import BasicPublish, QueueDeclare
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.rules.context import Client, CommandContext
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.engine.redactions import Redactions
from amqproxy.rules.engine.rule_states import RuleStates
from amqproxy.rules.rewriting.redact import Redact
from tests.rules.commands import command
from tests.rules.scene import rule

CLIENT_OF_TEAM = Client(user="guest", vhost="team", properties={"product": "pika", "token": "s3cret"})


def redactions(*rules: Any, client: Client = CLIENT_OF_TEAM) -> Redactions:
    return Redactions(RuleSet(rules).cases, RuleStates(), client)


def test_taps_see_a_mask_whether_or_not_the_match_holds() -> None:
    found = redactions(rule('action = "redact"\nfields = ["queue"]\nmatch = {queue = "secret.*"}'))
    shown = found.for_taps(CLIENT, command(QueueDeclare(queue="other")))
    assert shown is not None
    assert shown.method.queue == "***"


def test_taps_see_what_no_rule_covers_as_it_came() -> None:
    found = redactions(rule('action = "redact"\nfields = ["queue"]'))
    publish = command(BasicPublish(exchange="e"))
    assert found.for_taps(CLIENT, publish) is publish
    heartbeat = Command.received([Frame(HEARTBEAT_FRAME)])
    assert found.for_taps(SERVER, heartbeat) is heartbeat


def test_rules_in_shadow_mode_redact_nothing() -> None:
    found = redactions(rule('action = "redact"\nfields = ["queue"]\nmode = "shadow"'))
    declare = command(QueueDeclare(queue="q"))
    assert found.for_taps(CLIENT, declare) is declare
    context = CommandContext(sender=CLIENT, command=declare, client=CLIENT_OF_TEAM)
    assert found.for_rules(context) is context


def test_taps_do_not_see_a_command_on_which_a_redaction_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = RuleSet([rule('action = "redact"\nname = "mask"\nfields = ["queue"]')])
    found = Redactions(rules.cases, RuleStates(), CLIENT_OF_TEAM)

    def fail(*_: object) -> None:
        raise KeyError

    monkeypatch.setattr(Redact, "decide", fail)
    assert found.for_taps(CLIENT, command(QueueDeclare(queue="q"))) is None
    assert rules.counts()["mask"].errors == 1


def test_rules_that_show_commands_get_only_what_matching_redactions_leave() -> None:
    found = redactions(rule('action = "redact"\nfields = ["queue"]\nmatch = {queue = "secret.*"}'))
    for queue, shown in {"secret.q": "***", "other": "other"}.items():
        context = CommandContext(sender=CLIENT, command=command(QueueDeclare(queue=queue)), client=CLIENT_OF_TEAM)
        given = found.for_rules(context)
        assert given.command is context.command
        assert given.shown is not None
        assert given.shown.method.queue == shown


def test_the_client_is_shown_as_redactions_leave_its_introduction() -> None:
    found = redactions(
        rule('action = "redact"\nname = "a"\narguments = ["token"]'),
        rule('action = "redact"\nname = "b"\nfields = ["virtual_host"]'),
    )
    assert found.shown_client.properties == {"product": "pika", "token": "***"}
    assert found.shown_client.vhost == "***"
    assert found.shown_client.user == "guest"
    assert found.shown_client is found.shown_client, "it is worked out once"
    assert redactions().shown_client == CLIENT_OF_TEAM

"""What rules refuse, and how they fail, in the log."""

from __future__ import annotations

from typing import Any

import structlog

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import Scope
from amqproxy.amqp091.methods import BasicPublish
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.proxy.session.rule_log import INTERVAL, MOST_LINES, RuleLog
from amqproxy.rules.context import Client
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.engine.outcome import OutcomeCounts
from amqproxy.rules.verdict import Answer, Close, Verdict
from tests.proxy.stage import OPEN, staged
from tests.rules.scene import rule

COMMAND = Command(1, BasicPublish(exchange="orders", routing_key="new"))
ANNA = Client(user="anna", vhost="/", properties={"connection_name": "billing"})
CLOSED = Verdict(command=None, close=Close(Scope.CHANNEL, 403, "no"), marks=("list, line 3",))


class Clock:
    now = 100.0


def note(rules: RuleLog, verdict: Verdict = CLOSED, covered: Command | None = COMMAND, client: Client = ANNA) -> None:
    log = structlog.get_logger()
    rules.note_refusal(log, CLIENT, COMMAND, verdict, client=lambda: client, covered=lambda: covered)


def test_a_refusal_names_the_client_and_the_command(log: list[Any]) -> None:
    note(RuleLog(lambda: 0.0))
    [line] = log
    assert line == {
        "log_level": "warning",
        "event": "refused",
        "rule": "list, line 3",
        "verdict": "refused",
        "sender": "client",
        "method": "basic.publish",
        "channel": 1,
        "exchange": "orders",
        "routing_key": "new",
        "user": "anna",
        "vhost": "/",
        "name": "billing",
        "code": 403,
        "text": "no",
    }


def test_a_client_of_qpid_has_a_name(log: list[Any]) -> None:
    client = Client(user="anna", vhost="/", properties={"clientName": "ID:billing"})
    note(RuleLog(lambda: 0.0), client=client)
    assert log[0]["name"] == "ID:billing"


def test_what_is_covered_is_not_logged(log: list[Any]) -> None:
    rules = RuleLog(lambda: 0.0)
    note(rules, covered=Command(1, BasicPublish(exchange="***", routing_key="new")))
    note(rules, covered=None)
    assert [line.get("exchange") for line in log] == ["***", None]
    assert not any("text" in line for line in log)


def test_of_many_refusals_some_are_logged_and_the_others_counted(log: list[Any]) -> None:
    clock = Clock()
    rules = RuleLog(lambda: clock.now)
    for _ in range(MOST_LINES + 5):
        note(rules)
    note(rules, Verdict(command=None, answer=Answer.NACK, marks=("other",)))
    assert [line["rule"] for line in log] == ["list, line 3"] * MOST_LINES + ["other"]
    log.clear()
    rules.flush({})
    assert log == []
    clock.now += INTERVAL
    rules.flush({})
    assert log == [{"log_level": "warning", "event": "more refused", "rule": "list, line 3", "count": 5}]
    note(rules)
    assert log[1]["event"] == "refused"


def test_a_rule_that_fails_is_logged_at_once_and_then_now_and_then(log: list[Any]) -> None:
    clock, counts = Clock(), OutcomeCounts()
    rules = RuleLog(lambda: clock.now)
    rules.flush({"r": counts})
    assert log == []
    counts.fail("in some way")
    rules.flush({"r": counts})
    assert log == [{"log_level": "error", "event": "rule failed", "rule": "r", "times": 1, "reason": "in some way"}]
    for _ in range(100):
        counts.fail("in another")
        rules.flush({"r": counts})
    assert len(log) == 1
    clock.now += INTERVAL
    rules.note_failures(["gone", "r"], {"r": counts})
    assert log[1]["times"] == 100
    rules.flush({})


def test_a_rule_that_was_away_is_logged_as_a_new_one(log: list[Any]) -> None:
    clock, counts = Clock(), OutcomeCounts()
    rules = RuleLog(lambda: clock.now)
    for _ in range(5):
        counts.fail("in some way")
    rules.flush({"r": counts})
    clock.now += INTERVAL
    rules.flush({"another": OutcomeCounts()})
    again = OutcomeCounts()
    again.fail("once more")
    rules.flush({"r": again})
    assert [line["times"] for line in log] == [5, 1]


async def test_a_session_logs_what_is_refused(log: list[Any]) -> None:
    rules = RuleSet([rule('name = "no-tx"\naction = "refuse"\nmatch.method = "tx.*"')])
    async with staged(OPEN, rules=rules) as stage:
        stage.session._report._rule_log = RuleLog(lambda: 0.0)
        await stage.play("""
            >> 1: tx.select
            client: 1: channel.close 403
            broker: 1: channel.close 200
        """)
    [line] = [line for line in log if line["event"] == "refused"]
    assert (line["rule"], line["user"], line["method"], line["code"]) == ("no-tx", "guest", "tx.select", 403)

"""Rules that are Python."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.errors import Scope
from amqproxy.amqp091.methods import BY_NAME, BasicAck, BasicPublish, QueueDeclare
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.scripting.script import Script
from amqproxy.rules.scripting.script_loader import ScriptError
from amqproxy.rules.verdict import Answer, Close, Stage
from tests.rules.scene import GUEST, Shelf, decided, from_client, left, memory, passes, rule

SOURCE = """
from amqproxy.rules.scripting import change, drop, refuse

def load(context):
    context.shared["loaded by"] = context.rule

def publish(command, context):
    if command.body_size == 0:
        return drop(command)
    if command.method.exchange == "broken":
        return {}["x"]
    if command.method.exchange == "odd":
        return True
    context.store["published"] = context.store.get("published", 0) + 1
    return change(command, headers={"count": context.store["published"], "by": context.shared["loaded by"]})

def queue_declare(command, context):
    if not command.method.queue.startswith(context.client.user):
        return refuse(f"{context.client.user} may not have it")
"""


def script(source: str = SOURCE, keys: str = "") -> Script:
    made = rule(f'action = "script"\nfile = "rules.py"\n{keys}', Shelf({"rules.py": source}))
    assert isinstance(made, Script)
    return made


def test_functions_are_asked_by_method() -> None:
    made = script()
    assert made.methods == {"basic.publish", "queue.declare"}
    assert decided(made, from_client(BasicPublish())).answer is Answer.ACK
    assert passes(made, from_client(QueueDeclare(queue="guest.q")))
    close = decided(made, from_client(QueueDeclare(queue="q"))).close
    assert close is not None
    assert close.text == "ACCESS_REFUSED - guest may not have it"
    assert passes(made, from_client(BasicAck(1)))


@pytest.mark.parametrize(
    ("function", "counts"),
    [("publish", False), ("deliver", True), ("get_ok", True), ("queue_declare", False), ("command", True)],
)
def test_deliveries_are_counted_from_the_first_where_it_may_drop_one(function: str, counts: bool) -> None:
    made = script(f"def {function}(command, context):\n    return None\n")
    assert made.reads_unacked is counts


def test_what_it_keeps_is_kept_by_session_and_by_all() -> None:
    made = script()
    first, second = memory(made), memory(made)
    context = from_client(BasicPublish(), body=b"x")
    headers = [left(made, context, each).properties.headers for each in (first, first, second)]
    assert [dict(table) for table in headers if table is not None] == [
        {"count": 1, "by": "r"},
        {"count": 2, "by": "r"},
        {"count": 1, "by": "r"},
    ]


def test_errors_of_scripts_have_file_and_line() -> None:
    made = script()
    with pytest.raises(ScriptError, match=r"^rules.py:11: KeyError: 'x'$"):
        decided(made, from_client(BasicPublish(exchange="broken"), body=b"x"))
    with pytest.raises(ScriptError, match=r"^rules.py:7: `publish` returned a bool, not a Verdict or None$"):
        decided(made, from_client(BasicPublish(exchange="odd"), body=b"x"))
    with pytest.raises(ScriptError, match=r"^rules.py:2: ZeroDivisionError"):
        script("def load(context):\n    1 / 0\ndef publish(command, context): pass")
    with pytest.raises(ValueError, match=r"there is no rules\.py"):
        rule('action = "script"\nfile = "rules.py"')


def test_the_log_gets_the_line_and_no_data_of_a_peer() -> None:
    source = "def publish(command, context):\n    raise ValueError(command.body)"
    verdict = RuleSet([script(source)]).evaluator(GUEST).evaluate(from_client(BasicPublish(), body=b"card 1234"))
    assert verdict.close == Close(Scope.CHANNEL, 541, "INTERNAL_ERROR - rule 'r' failed")
    assert verdict.failures == (("r", "rule 'r' failed: rules.py:2: ValueError"),)


def test_one_function_for_all() -> None:
    made = script("def command(command, context):\n  raise Exception\ndef ack(command, context): pass")
    assert made.methods == frozenset(BY_NAME)
    assert passes(made, from_client(BasicAck(1)))
    with pytest.raises(ScriptError, match=r"rules\.py:2: Exception$"):
        decided(made, from_client(QueueDeclare()))


@pytest.mark.parametrize(
    ("keys", "stage"),
    [("", Stage.BODY), ('reads = "header"', Stage.HEADER), ('reads = "method"', Stage.METHOD)],
)
def test_how_much_it_reads(keys: str, stage: Stage) -> None:
    assert script(keys=keys).needs is stage


def test_it_does_nothing_before_it_is_loaded_and_begins_anew_with_each_load() -> None:
    made = script()
    assert not made.continues(made)
    assert Script(name="r", file="rules.py").methods is None
    with pytest.raises(ValueError, match="has not been loaded"):
        decided(Script(name="r", file="rules.py"), from_client(BasicPublish()))

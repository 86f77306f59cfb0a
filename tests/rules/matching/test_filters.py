"""CEL over the names: what holds, what is absent, what fails, and what is refused."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091.methods import BasicPublish, QueueDeclare
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.amqp091.wire import Table
from amqproxy.rules.context import Client, CommandContext
from amqproxy.rules.matching import filters
from amqproxy.rules.matching.attributes import NAMES, AttributeSource
from amqproxy.rules.matching.filters import Filter, FilterFailed, compiled
from amqproxy.rules.matching.tokens import TextError
from amqproxy.rules.verdict import Stage
from tests.amqp091.strategies import tables
from tests.rules.commands import command


@pytest.mark.parametrize(
    ("expression", "values", "expected"),
    [
        ("exchange == 'a'", {"exchange": "a"}, True),
        ("exchange == 'a' || queue == 'b'", {"queue": "b"}, True),
        ("queue == 'a'", {}, False),
        ("queue != 'a'", {}, True),
        ("queue == null", {}, True),
        ("queue.startsWith('a')", {}, False),
        ("!queue.startsWith('a')", {}, False),
        ("queue.startsWith('a')", {"queue": "ab"}, True),
        ("routing_key.matches('^a[0-9]+$')", {"routing_key": "a12"}, True),
        ("headers.tenant == 'x'", {"headers": {"tenant": "x"}}, True),
        ("headers.tenant == 'x'", {"headers": {}}, False),
        ("headers.tenant != 'x'", {}, True),
        ("has(headers.tenant)", {"headers": {"tenant": 1}}, True),
        ("has(headers.tenant)", {"headers": {}}, False),
        ("!has(headers.tenant)", {}, True),
        ("has(headers.n) && headers.n > 5", {"headers": {"n": 6}}, True),
        ("has(headers.n) && headers.n > 5", {"headers": {}}, False),
        ("headers.n > 5", {"headers": {}}, False),
        ("headers.t.inner == 1", {"headers": {"t": {"inner": 1}}}, True),
        ("headers.t.inner == 1", {"headers": {"t": {}}}, False),
        ("headers.t.inner == null", {"headers": {}}, True),
        ("headers['a b'] == 1", {"headers": {"a b": 1}}, True),
        ("headers[routing_key] == 1", {"headers": {"a": 1}, "routing_key": "a"}, True),
        ("headers[routing_key] == 1", {"headers": {"a": 1}, "routing_key": "b"}, False),
        ("'x' in headers", {"headers": {"x": 1}}, True),
        ("headers.exists(h, h.startsWith('x-'))", {"headers": {"x-a": 1}}, True),
        ("has(properties.priority)", {}, False),
        ("has(properties.priority)", {"properties.priority": 0}, True),
        ("properties.priority > 3", {"properties.priority": 4}, True),
        ("client.properties.x == 'y' && client.port > 1", {"client.properties": {"x": "y"}, "client.port": 2}, True),
        ("json.order.id > 5 && json.items[0] == 1", {"json": {"order": {"id": 6}, "items": [1]}}, True),
        ("json.items[3] == 1", {"json": {"items": [1]}}, False),
        ("json.order.id > 5", {"json": [1]}, False),
        ("json.order.id > 5", {}, False),
        ("json[0] == 1", {"json": [1]}, True),
        ("time.getHours() == 1 && time.getFullYear() == 1970", {"time": 3600.0}, True),
        ("size > 2", {"size": 2**63}, True),
        ("body.contains('\\u00e9')", {"body": "é"}, True),
        ("routing_key == 'a\\ufffd'", {"routing_key": "a\udc80"}, True),
        ("true", {}, True),
    ],
)  # fmt: skip
def test_what_holds(expression: str, values: dict[str, Any], expected: bool) -> None:
    assert Filter(expression).holds(values.get) is expected


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("headers.n > 5", {"headers": {"n": "many"}}),
        ("headers.x", {"headers": {"x": 1}}),
        ("size / (size - 1) > 0", {"size": 1}),
        ("int(routing_key) > 1", {"routing_key": "a"}),
        ("time.getHours() == 3", {"time": 1e12}),
        ("time.getHours() == 3", {"time": 1e18}),
        ("time.getHours() == 3", {"time": float("inf")}),
    ],
)
def test_what_fails_for_no_lack_of_something(expression: str, values: dict[str, Any]) -> None:
    with pytest.raises(FilterFailed):
        Filter(expression).holds(values.get)


@pytest.mark.parametrize(
    ("expression", "what"),
    [
        ("exchnge == 'a'", "there is no `exchnge`: did you mean `exchange`? (line 1, column 1)"),
        ("exchange ==", "the expression is incomplete here (line 1, column 12)"),
        ("exchange = 'a'", "unexpected text (line 1, column 10)"),
        ("exchange == 'a' &&\n\n) queue", "unexpected text (line 3, column 1)"),
        ("queue.matches('a(')", "not a regular expression: unclosed group (line 1, column 15)"),
        ("queue.matches('(a{1000}){1000}')", "not a regular expression: Compiled regex exceeds size limit"),
        ("1", "evaluates to a number, which is neither true nor false (line 1, column 1)"),
        ("exchange", "evaluates to a text, which is neither true nor false"),
        ("[exchange == 'a']", "evaluates to a list, which is neither true nor false"),
        ("", "the expression is empty"),
        (" \n", "the expression is empty"),
        ("has(queue)", "invalid argument to has() macro (line 1, column 5)"),
        ("(" * 200 + "true" + ")" * 200, "too many nested brackets (line 1, column 97)"),
        ("!" * 4000 + "true", "too many nested operators (line 1, column 1)"),
    ],
)
def test_what_is_refused(expression: str, what: str) -> None:
    with pytest.raises(TextError) as raised:
        Filter(expression)
    assert what in str(raised.value)


@pytest.mark.parametrize(
    ("expression", "source", "stage"),
    [
        ("exchange == 'a' && user == 'b'", AttributeSource.METHOD, Stage.METHOD),
        ("user == 'b'", AttributeSource.METHOD, Stage.METHOD),
        ("size > 1", AttributeSource.CONTENT, Stage.HEADER),
        ("json.x == 1 || headers.y == 2", AttributeSource.CONTENT, Stage.BODY),
        ("time.getHours() > 1 && exchange == 'a'", AttributeSource.MOMENT, Stage.METHOD),
        ("channel.unacked > 1 && size > 1", AttributeSource.MOMENT, Stage.HEADER),
    ],
)
def test_what_must_have_come_before_it_is_asked(expression: str, source: AttributeSource, stage: Stage) -> None:
    condition = compiled(expression).condition
    assert (condition.source, condition.stage) == (source, stage)
    assert condition.reads <= set(NAMES)


def test_it_is_asked_of_commands() -> None:
    condition = compiled("exchange == 'orders' && headers.n > 1 && user == 'guest'").condition
    sent = command(BasicPublish(exchange="orders"), 1, Properties(headers=Table({"n": 2})))
    assert condition.holds(CommandContext(sender=CLIENT, command=sent, client=Client(user="guest")))
    assert not condition.holds(CommandContext(sender=CLIENT, command=sent, client=Client(user="admin")))
    assert not condition.holds(
        CommandContext(sender=CLIENT, command=command(QueueDeclare()), client=Client(user="guest"))
    )


def test_what_holds_of_names_is_known_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a filter of exchanges does not evaluate an expression for each message of a capture."""
    chosen = Filter("exchange == 'orders' || user == 'admin'")
    evaluated: list[str] = []
    monkeypatch.setattr(
        Filter, "holds", lambda self, look_up: evaluated.append(look_up("exchange")) or look_up("exchange") == "orders"
    )
    for _ in range(2):
        for exchange in ("orders", "other"):
            context = CommandContext(
                sender=CLIENT, command=command(BasicPublish(exchange=exchange)), client=Client(user="guest")
            )
            assert chosen.condition.holds(context) is (exchange == "orders")
    assert evaluated == ["orders", "other"]


def test_what_is_known_of_names_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filters, "MAX_KNOWN_VALUES", 3)
    chosen = Filter("routing_key.endsWith('7')")
    for number in range(20):
        context = CommandContext(sender=CLIENT, command=command(BasicPublish(routing_key=f"{number}")), client=Client())
        assert chosen.condition.holds(context) is (number % 10 == 7)
        assert len(chosen._known) <= 3


@given(tables, st.text())
def test_no_table_of_a_peers_breaks_it(table: Table, name: str) -> None:
    look_up = {"headers": table, "routing_key": name}.get
    for expression in ("headers.exists(h, h == routing_key)", "headers[routing_key] == headers.x", "headers.x.y > 1"):
        with suppress(FilterFailed):
            assert compiled(expression).holds(look_up) in (True, False)


def test_a_large_table_takes_a_time_that_is_linear_in_it() -> None:
    table = {f"x{number}": number for number in range(20_000)}
    begun = time.process_time()
    assert compiled("headers.all(h, h.startsWith('x'))").holds({"headers": table}.get)
    assert time.process_time() - begun < 5


def test_the_library_is_loaded_only_for_an_expression() -> None:
    code = """if True:
        import sys
        import amqproxy.configuration.config, amqproxy.rules.engine.evaluator
        assert "cel" not in sys.modules and "re2" not in sys.modules
        from amqproxy.rules.matching.filters import Filter
        Filter("exchange == 'a'")
        assert "cel" in sys.modules
    """
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_expression_that_fails_on_a_specimen_is_not_taken_for_one_that_is_no_question() -> None:
    """The error of this one quotes a text that has the words which such an expression is reported with."""
    found = compiled("duration(user + 'neither true nor false') == duration('1s')")
    with pytest.raises(FilterFailed, match="neither"):
        found.holds(lambda path: "guest")

"""Rules of addons: they decide as scripts do, with keys of their own."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from amqproxy.amqp091.methods import BasicAck, BasicDeliver, BasicPublish, QueueDeclare
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.engine.explanation import ExplainedCommand, explained
from amqproxy.rules.engine.validation import check
from amqproxy.rules.scripting import AddonRule, Command, Context, Verdict, change, drop
from amqproxy.rules.scripting.script_loader import ScriptError
from amqproxy.rules.verdict import Answer, Stage
from tests.rules.scene import decided, from_client, passes, rule

NO_A = rule('action="refuse"\nname="no-a"\nmatch.routing_key="a"')


class Numbered(AddonRule, frozen=True, tag="numbered"):
    """Numbers publishes by session, and drops those without a key."""

    header: str = "number"

    methods = frozenset({"basic.publish"})
    reads = "header"
    asked: ClassVar[list[str]] = []

    def act(self, command: Command, context: Context) -> Verdict | None:
        self.asked.append(context.rule)
        key = getattr(command.method, "routing_key", "")
        if key == "odd":
            return True  # type: ignore[return-value]
        if key == "exit":
            raise SystemExit
        if not key:
            return drop(command)
        if key == "plain":
            return None
        context.store["count"] = context.store.get("count", 0) + 1
        return change(command, headers={self.header: context.store["count"]})


class Quiet(AddonRule, frozen=True, tag="quiet"):
    def act(self, command: Command, context: Context) -> Verdict | None:
        return None


def test_it_decides_about_its_methods() -> None:
    made = Numbered(name="n", header="x")
    assert decided(made, from_client(BasicPublish())).answer is Answer.ACK
    assert passes(made, from_client(BasicPublish(routing_key="plain")))
    command = decided(made, from_client(BasicPublish(routing_key="a"), Properties(headers=Table({"old": 1})))).command
    assert command is not None
    assert dict(command.properties.headers or {}) == {"x": 1}
    assert made.needs is Stage.HEADER
    assert made.matched & (made.methods or frozenset()) == {"basic.publish"}


@pytest.mark.parametrize(("key", "fault"), [("odd", "`act` returned a bool, not a Verdict"), ("exit", "SystemExit")])
def test_what_is_wrong_is_named_by_file_and_line(key: str, fault: str) -> None:
    with pytest.raises(ScriptError, match=fault) as raised:
        decided(Numbered(name="n"), from_client(BasicPublish(routing_key=key)))
    assert str(raised.value).startswith(f"{__file__}:")


def test_a_config_is_checked_without_calling_it() -> None:
    """`act` may count, or ask others: it is called for commands alone."""
    Numbered.asked.clear()
    check([Numbered(name="n")])
    RuleSet([Numbered(name="n")])
    assert Numbered.asked == []


def test_deliveries_are_counted_where_it_may_drop_one() -> None:
    assert not Numbered(name="n").reads_unacked
    assert Quiet(name="q").reads_unacked
    assert Quiet(name="q").needs is Stage.METHOD
    for method in (QueueDeclare(queue="q"), BasicAck(1)):
        assert passes(Quiet(name="q"), from_client(method))
    assert Quiet(name="q").methods is None
    assert BasicDeliver.name in Quiet(name="q").matched


def test_what_it_leaves_is_not_known() -> None:
    lines: list[Any] = list(explained([Quiet(name="q"), NO_A], ExplainedCommand({"routing_key": "a"}, "basic.publish")))
    assert "   here:  may hold: depends on routing_key" in lines

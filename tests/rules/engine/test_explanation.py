"""What rules do, in words; and who would be asked about a command."""

from __future__ import annotations

from typing import Literal

import pytest

from amqproxy.rules.access.acl import AccessList
from amqproxy.rules.access.allow import Allow
from amqproxy.rules.access.refuse import Refuse
from amqproxy.rules.amqp010.explanation import explained_command
from amqproxy.rules.engine.explanation import ExplainedCommand, explained
from amqproxy.rules.limits.limit import Limit
from amqproxy.rules.matching.clock_time import ClockTime
from amqproxy.rules.matching.match import Match, Sizes
from amqproxy.rules.observing.tag import Tag
from amqproxy.rules.rule import Rule
from amqproxy.rules.scripting.script import Script
from tests.rules.scene import Shelf, rule

RULES: list[Rule] = [
    AccessList(
        name="access",
        match=Match(vhost="!test"),
        lines='allow user "orders-*" to publish exchange "orders.*"  # ours\nallow user "ops" to any; otherwise deny',
    ),
    Refuse(name="big", match=Match(size=Sizes(min="64KiB")), way="nack", mode="shadow"),
    Refuse(
        name="odd",
        match=Match(
            method="basic.publish",
            headers={"tier": "gold", "test": False},
            time=ClockTime(start="22:00", to="06:00", days=("sat", "sun")),
        ),
        when="exchange == 'x'",
    ),
    Allow(name="rest"),
]


def explanation_of(inquiry: ExplainedCommand) -> str:
    return "\n".join(explained(RULES, inquiry))


def test_each_rule_in_words() -> None:
    assert (
        explanation_of(ExplainedCommand({}))
        == """\
1. acl `access`
   about: commands where vhost is not `test`
   does:  Evaluate the lines in order: the first that holds passes the command to the next rule, or refuses it.
   line 1: allow user "orders-*" to publish exchange "orders.*"
   line 2: allow user "ops" to any
   line 2b: otherwise deny
2. refuse `big` (in shadow: it counts, and changes nothing)
   about: basic.deliver, basic.get-ok, basic.publish, basic.return where size is at least 64KiB
   does:  Refuse the command: send an error to its sender, or to the client if the broker sent it. (with = 'nack')
   needs: the method and the message's header
3. refuse `odd`
   about: basic.publish where headers tier is `gold`, headers test is not there, the time is from 22:00 to \
06:00 (+00:00) on sat, sun, exchange == 'x'
   does:  Refuse the command: send an error to its sender, or to the client if the broker sent it.
   needs: the method and the message's header
4. allow `rest`
   about: every command
   does:  Pass the command and evaluate no later rule.
   needs: the method alone"""
    )


@pytest.mark.parametrize(
    ("inquiry", "answers", "waits", "verdict"),
    [
        (
            ExplainedCommand({"user": "orders-1", "vhost": "/", "exchange": "orders.eu"}, "basic.publish"),
            [
                "holds",
                *["is not asked, since `access, line 1` holds"] * 2,
                "may hold: depends on size",
                "does not hold: exchange is another",
                "holds",
            ],
            "To evaluate this basic.publish, amqproxy waits for the method and the message's header.",
            "Verdict: this basic.publish passes, as `rest` allows it.",
        ),
        (
            ExplainedCommand({"user": "guest", "vhost": "/"}, "queue.declare"),
            [
                "does not hold: user is another",
                "does not hold: user is another",
                "holds",
                *["is not asked, since `access, line 2b` holds"] * 3,
            ],
            "To evaluate this queue.declare, amqproxy waits for the method alone.",
            "Verdict: this queue.declare is stopped by `access, line 2b`: refused: channel.close 403 ACCESS_REFUSED - "
            "queue.declare of queue '' in vhost '/' refused for user 'guest' by rule 'access, line 2b'.",
        ),
        (
            ExplainedCommand({"vhost": "test"}),
            [
                *["does not hold: vhost is another"] * 3,
                "may hold: depends on method, size",
                "may hold: depends on exchange, headers, method, time",
                "may hold: depends on method",
            ],
            None,
            None,
        ),
    ],
)
def test_who_would_be_asked(
    inquiry: ExplainedCommand, answers: list[str], waits: str | None, verdict: str | None
) -> None:
    lines = explanation_of(inquiry).split("\n")
    assert [line.partition("here:  ")[2] for line in lines if "here:" in line] == answers
    if verdict is None:
        assert "Verdict: " not in "\n".join(lines)
    else:
        assert lines[-2:] == [waits, verdict]


ACCESS = """allow user "guest" to publish, bind exchange "orders"
allow user "guest" to get, declare queue "orders.eu"
otherwise deny
"""
LISTED: list[Rule] = [
    AccessList(name="who", lines=ACCESS),
    Tag(name="seen", match=Match(method=("basic.publish", "queue.declare")), tags=("seen",)),
    Refuse(name="big", match=Match(size=Sizes(min="64KiB"))),
    Limit(name="cap", of="messages", rate=5.0),
    Refuse(name="no deletes", match=Match(method="queue.delete"), mode="shadow"),
]
PASSES = "passes, subject to `cap` (limit), unless `big` (refuse) holds: that depends on size; `seen`: tagged seen"
REFUSED = (
    "is stopped by `who, line 3`: refused: {} 403 ACCESS_REFUSED - {} refused for user 'guest' by rule 'who, line 3'"
)


@pytest.mark.parametrize(
    ("method", "fields", "is_amqp010", "answers", "verdict"),
    [
        (
            "basic.publish",
            {"exchange": "payments"},
            False,
            ["exchange is another", "it is not about basic.publish"],
            "basic.publish " + REFUSED.format("channel.close", "basic.publish to exchange 'payments'"),
        ),
        (
            "message.transfer",
            {"exchange": "payments"},
            False,
            ["exchange is another", "it is not about message.transfer"],
            "message.transfer (to rules, basic.publish) "
            + REFUSED.format("execution.exception", "basic.publish to exchange 'payments'"),
        ),
        ("basic.publish", {"exchange": "orders"}, False, ["it is not about basic.publish"], f"basic.publish {PASSES}"),
        (
            "message.transfer",
            {"exchange": "orders"},
            False,
            ["it is not about message.transfer"],
            f"message.transfer (to rules, basic.publish) {PASSES}",
        ),
        (
            "queue.delete",
            {"queue": "orders.eu"},
            False,
            ["it is not about queue.delete"] * 2,
            "queue.delete " + REFUSED.format("channel.close", "queue.delete of queue 'orders.eu'"),
        ),
        (
            "queue.delete",
            {"queue": "orders.eu"},
            True,
            ["it is not about queue.delete"] * 2,
            "queue.delete " + REFUSED.format("execution.exception", "queue.delete of queue 'orders.eu'"),
        ),
        (
            "queue.query",
            {"queue": "orders.eu"},
            True,
            [*["this needs no right"] * 3, *["it is not about queue.query"] * 3],
            "queue.query (to rules, queue.declare) passes; `seen`: tagged seen",
        ),
    ],
)
def test_each_rule_has_its_own_reason_and_the_verdict_is_said(
    method: str, fields: dict[str, str], is_amqp010: bool, answers: list[str], verdict: str
) -> None:
    inquiry = explained_command({"user": "guest", **fields}, method, protocol="0-10" if is_amqp010 else None)
    lines = list(explained(LISTED, inquiry))
    reasons = [line.partition("does not hold: ")[2] for line in lines if "does not hold: " in line]
    assert reasons[: len(answers)] == answers
    assert lines[-1] == f"Verdict: this {verdict}."


@pytest.mark.parametrize("name", ["billing", "other"])
def test_the_name_of_the_connection_is_known(name: str) -> None:
    rules = [
        Refuse(name="a", match=Match(method="basic.get", client={"name": "billing"})),
        Refuse(name="b", match=Match(method="basic.get", connection_name="billing")),
        Refuse(name="c", match=Match(method="basic.get"), when="client.connection_name == 'billing'"),
    ]
    for each in rules:
        [*_, here, _, _] = explained([each], ExplainedCommand({"connection_name": name}, "basic.get"))
        assert here.strip().startswith("here:  holds" if name == "billing" else "here:  does not hold: ")


def test_a_line_behind_one_that_may_hold_may_hold() -> None:
    lines = list(explained(LISTED, ExplainedCommand({"exchange": "orders"}, "basic.publish")))
    answers = [line.partition("here:  ")[2] for line in lines if "here:" in line]
    assert answers[:3] == [
        "may hold: depends on user",
        "does not hold: it is not about basic.publish",
        "may hold: depends on `who, line 1`",
    ]
    assert "unless `who, line 3` (refuse) holds: that depends on `who, line 1`, or `big`" in lines[-1]


@pytest.mark.parametrize(
    ("rule", "verdict"),
    [
        (Refuse(name="all"), "is stopped by `all`: refused: channel.close 403 ACCESS_REFUSED - "),
        (Limit(name="cap", of="messages", rate=5.0), "passes, subject to `cap` (limit)"),
        (Tag(name="seen", match=Match(method="basic.publish"), tags=("seen",)), "passes; `seen`: tagged seen."),
    ],
)
@pytest.mark.parametrize("mode", ["enforce", "shadow"])
def test_a_refusal_behind_an_allowing_rule_that_may_hold_is_not_certain(
    rule: Rule, verdict: str, mode: Literal["enforce", "shadow"]
) -> None:
    allowing = Allow(name="small", match=Match(method="basic.publish", size=Sizes(max="1KiB")), mode=mode)
    [*_, line] = explained([allowing, rule], ExplainedCommand({}, "basic.publish"))
    assert line.startswith(f"Verdict: this basic.publish {verdict}")
    may_pass = mode == "enforce" and not isinstance(rule, Tag)
    assert line.endswith(", unless `small` (allow) holds: that depends on size.") == may_pass


def test_a_rule_that_fails_refuses() -> None:
    script = Script(name="s", file="missing.py", match=Match(method="basic.publish"))
    [*_, verdict] = explained([Refuse(name="r", text="{exchange}", code=404)], ExplainedCommand({}, "basic.get"))
    assert verdict.startswith("Verdict: this basic.get is stopped by `r`: refused: channel.close 404")
    [*_, verdict] = explained([script], ExplainedCommand({}, "basic.publish"))
    assert verdict == "Verdict: this basic.publish passes, subject to `s` (script)."


@pytest.mark.parametrize(
    ("given", "method", "what"),
    [
        ({}, "basic.pubish", "there is no method `basic.pubish`: did you mean `basic.publish`?"),
        ({"queue": "q"}, "basic.publish", "basic.publish has no queue"),
        ({}, "message.trnsfer", "there is no method `message.trnsfer`: did you mean `message.transfer`?"),
        ({}, "session.flush", "rules do not see session.flush: it passes"),
        ({"queue": "q"}, "message.transfer", "message.transfer has no queue"),
        ({"queue": "q"}, None, "queue depends on the method: name one too"),
    ],
)
def test_what_does_not_go_together(given: dict[str, str], method: str | None, what: str) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        explained_command(given, method)
    assert str(raised.value) == what


RENAMES = rule('action="rewrite"\nname="to-b"\nmatch.method="basic.publish"\nmatch.routing_key="a"\nrouting_key="b"')
NO_A, NO_B = (rule(f'action="refuse"\nname="no-{name}"\nmatch.routing_key="{name}"') for name in "ab")
PREFIXES = rule('action="rewrite"\nname="tenant"\nmatch.method="basic.publish"\nexchange={prefix="{user}."}')
NO_X = rule('action="refuse"\nname="no-x"\nmatch.exchange="guest.x"')


@pytest.mark.parametrize(
    ("rules", "given", "here"),
    [
        (
            [RENAMES, NO_A, NO_B],
            {"routing_key": "a", "exchange": "x"},
            ["holds", "does not hold: routing_key is another", "holds"],
        ),
        ([NO_A, RENAMES, NO_B], {"routing_key": "c"}, 3 * ["does not hold: routing_key is another"]),
        ([RENAMES, NO_B], {}, ["may hold: depends on routing_key", "may hold: depends on routing_key"]),
        ([PREFIXES, NO_X], {"exchange": "x", "user": "guest"}, ["holds", "holds"]),
        ([PREFIXES, NO_X], {"exchange": "guest.x", "user": "guest"}, ["holds", "does not hold: exchange is another"]),
        ([PREFIXES, NO_X], {"exchange": "x"}, ["holds", "may hold: depends on exchange"]),
    ],
)
def test_a_rule_is_asked_about_the_names_that_those_before_it_leave(
    rules: list[Rule], given: dict[str, str], here: list[str]
) -> None:
    inquiry = ExplainedCommand(given, "basic.publish")
    for _ in range(2):  # an explanation leaves the inquiry as it was
        lines = [line.strip() for line in explained(rules, inquiry)]
        answers = [line.removeprefix("here:  ") for line in lines if line.startswith("here:")]
        assert answers[: len(here)] == here


def test_what_a_script_leaves_is_not_known() -> None:
    shelf = Shelf({"rules.py": "def publish(command, context):\n    return command\n"})
    script = rule('action = "script"\nname = "s"\nfile = "rules.py"', shelf)
    lines = list(explained([script, NO_A], ExplainedCommand({"routing_key": "a"}, "basic.publish")))
    assert "   here:  may hold: depends on routing_key" in lines

"""Policies: which one applies, what it may define, and that it applies to what is there already."""

from typing import Any

import pytest

from amqproxy.amqp091.methods import ExchangeDeclare
from amqproxy.amqp091.wire import Table
from amqproxy.broker.queues.policies import Policy, effect, effective_arguments, make_policy
from amqproxy.broker.queues.policy_table import PolicyTable
from amqproxy.broker.queues.queue_arguments import QueueSettings
from tests.broker.client import connected


def policy(name: str, pattern: str = "^q", priority: int = 0, apply_to: str = "all", **definition: Any) -> Policy:
    definition = {key.replace("_", "-"): value for key, value in definition.items()}
    return make_policy(name, pattern, definition or {"max-length": 1}, priority, apply_to)


@pytest.mark.parametrize(
    ("policies", "operators", "expected"),
    [
        ([], [], (None, None, {})),
        ([policy("a", "^x")], [], (None, None, {})),
        ([policy("a", apply_to="exchanges")], [], (None, None, {})),
        ([policy("a", apply_to="queues")], [], ("a", None, {"max-length": 1})),
        ([policy("a"), policy("b", priority=1, expires=5)], [], ("b", None, {"expires": 5})),
        ([policy("a", priority=-1), policy("b", expires=5)], [], ("b", None, {"expires": 5})),
        ([], [policy("o")], (None, "o", {"max-length": 1})),
        (
            [policy("a", max_length=5, overflow="reject-publish")],
            [policy("o", max_length=3, expires=9)],
            ("a", "o", {"max-length": 3, "overflow": "reject-publish", "expires": 9}),
        ),
        ([policy("a", max_length=3)], [policy("o", max_length=5)], ("a", "o", {"max-length": 3})),
    ],
)
def test_which_holds(policies: list[Policy], operators: list[Policy], expected: tuple[Any, ...]) -> None:
    tables = PolicyTable(), PolicyTable()
    for table, given in zip(tables, (policies, operators), strict=True):
        for each in given:
            table.put(each)
    found = effect(*(table.highest("queues", "q1") for table in tables))
    assert (found.policy, found.operator_policy, found.definition) == expected


@pytest.mark.parametrize(
    ("arguments", "definition", "expected"),
    [
        ({}, {"max-length": 5}, {"x-max-length": 5}),
        ({"x-max-length": 3}, {"max-length": 5}, {"x-max-length": 3}),
        ({"x-max-length": 7}, {"max-length": 5}, {"x-max-length": 5}),
        ({"x-dead-letter-exchange": "own"}, {"dead-letter-exchange": "other"}, {"x-dead-letter-exchange": "own"}),
        ({"x-max-priority": 5}, {"message-ttl": 0}, {"x-max-priority": 5, "x-message-ttl": 0}),
    ],
)
def test_effective_arguments(arguments: dict[str, Any], definition: dict[str, Any], expected: dict[str, Any]) -> None:
    assert effective_arguments(Table(arguments), definition) == expected


@pytest.mark.parametrize(
    ("definition", "options", "expected"),
    [
        ({"max-length": -5}, {}, "-5 is not a valid maximum length"),
        ({"max-length": "5"}, {}, '<<"5">> is not a valid maximum length'),
        ({"max-length": True}, {}, "true is not a valid maximum length"),
        ({"expires": 0}, {}, "0 is not a valid queue expiry"),
        ({"overflow": "spill"}, {}, '<<"spill">> is not a valid overflow value'),
        ({"dead-letter-exchange": 1}, {}, "1 is not a valid dead letter exchange name"),
        ({"nope": 5}, {}, '[{<<"nope">>,5}] are not recognised policy settings'),
        ({}, {}, "no policy provided"),
        ({"max-length": 5}, {"pattern": "["}, "pattern should be regular expression but is invalid"),
        ({"max-length": 5}, {"apply_to": "drums"}, "apply-to 'drums' unrecognised"),
        ({"max-length": 5}, {"priority": "high"}, "priority should be number"),
        (
            {"alternate-exchange": "x"},
            {"is_operator": True},
            '[{<<"alternate-exchange">>,<<"x">>}] are not recognised policy settings',
        ),
    ],
)
def test_what_cannot_be(definition: dict[str, Any], options: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        make_policy("p", options.pop("pattern", ".*"), definition, **options)
    assert str(error.value).startswith(expected)


def test_an_exchange_that_is_there_already() -> None:
    client = connected()
    vhost = client.broker.vhosts["/"]
    client.ask(ExchangeDeclare(exchange="x"))
    client.ask(ExchangeDeclare(exchange="own", arguments=Table({"alternate-exchange": "nil"})))
    client.declare("q")
    client.bind("q", "amq.fanout")
    assert client.publish("x", "k", mandatory=True) == "basic.return"
    vhost.set_policy(policy("p", ".", alternate_exchange="amq.fanout"), client.now)
    assert client.publish("x", "k", mandatory=True) == ""
    assert client.publish("own", "k", mandatory=True) == "basic.return"
    client.ask(ExchangeDeclare(exchange="later"))
    assert vhost.exchanges["later"].policy_names == ("p", None)
    assert client.publish("later", "k", mandatory=True) == ""
    assert vhost.clear_policy("p", client.now)
    assert not vhost.clear_policy("p", client.now)
    assert client.publish("x", "k", mandatory=True) == "basic.return"


def test_a_queue_that_is_there_already() -> None:
    client = connected()
    vhost = client.broker.vhosts["/"]
    client.declare("q", arguments={"x-max-length": 4})
    for _ in range(6):
        client.publish("", "q")
    assert client.depth("q") == 4
    vhost.set_policy(policy("p", max_length=2), client.now)
    client.publish("", "q")
    assert client.depth("q") == 2
    vhost.set_policy(policy("o", max_length=1), client.now, is_operator=True)
    client.publish("", "q")
    assert client.depth("q") == 1
    for name, is_operator in (("p", False), ("o", True)):
        vhost.clear_policy(name, client.now, is_operator=is_operator)
    for _ in range(6):
        client.publish("", "q")
    assert client.depth("q") == 4


def test_a_queue_whose_policies_fail_leaves_no_other_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    client = connected()
    vhost, failures = client.broker.vhosts["/"], []
    client.broker.events.on_failure = lambda event, error, **fields: failures.append((event, str(error), fields))
    for name, priority in (("qa", 1), ("qb", 2), ("qc", 3)):
        client.declare(name, arguments={"x-max-priority": priority})
    usual = QueueSettings.of

    def fail(arguments: dict[str, Any]) -> QueueSettings:
        if arguments["x-max-priority"] == 2:
            raise ValueError("no settings")
        return usual(arguments)

    with monkeypatch.context() as patch:
        patch.setattr(QueueSettings, "of", fail)
        vhost.set_policy(policy("p", max_length=7), client.now)
    assert [vhost.queues[name].policy_names[0] for name in ("qa", "qb", "qc")] == ["p", None, "p"]
    assert failures == [("policies not applied", "no settings", {"vhost": "/", "queue": "qb"})]
    vhost.set_policy(policy("p", max_length=7), client.now)  # this applies it to the one that was left
    assert vhost.queues["qb"].policy_names == ("p", None)


def test_a_queue_that_cannot_apply_a_policy_applies_it_at_the_next_change(monkeypatch: pytest.MonkeyPatch) -> None:
    client = connected()
    vhost = client.broker.vhosts["/"]
    client.broker.events.on_failure = lambda event, error, **fields: None
    client.declare("q")
    with monkeypatch.context() as patch:
        patch.setattr(QueueSettings, "of", lambda arguments: None)  # so that applying them fails
        vhost.set_policy(policy("p", max_length=4), client.now)
    assert vhost.queues["q"].policy_names == (None, None)
    vhost.set_policy(policy("p", max_length=4), client.now)
    for _ in range(6):
        client.publish("", "q")
    assert client.depth("q") == 4

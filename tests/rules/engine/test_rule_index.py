"""Which rules are looked at for which method."""

from __future__ import annotations

from amqproxy.amqp091.methods import BasicDeliver, BasicPublish, ExchangeBind, QueueDeclare
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.rules.access.allow import Allow
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.engine.rule_index import MAX_EXCHANGES, RuleIndex
from amqproxy.rules.matching.match import Match
from amqproxy.rules.rule import Rule
from tests.rules.sample_rules import Rename

RULES: list[Rule] = [
    Allow(name="orders", match=Match(exchange="orders.*", sender="client")),
    Allow(name="declares", match=Match(method="*.declare")),
    Rename(name="rename", match=Match(method="basic.publish", exchange="old"), to="new"),
    Allow(name="all", match=Match(method="basic.publish")),
    Rename(name="again", match=Match(method="basic.publish", exchange="new"), to="newer"),
]


def table() -> RuleIndex:
    return RuleIndex(RuleSet(RULES).cases)


def test_a_method_has_the_rules_that_may_be_about_it() -> None:
    row = table().row(CLIENT, QueueDeclare.index)
    assert row is not None
    assert [case.rule.name for case in row.asked] == ["orders", "declares"]
    assert table().row(SERVER, QueueDeclare.index) is None
    wants = table().wants
    assert wants[CLIENT][QueueDeclare.index] == 1
    assert wants[SERVER][QueueDeclare.index] == 0


def test_an_exchange_has_the_rules_that_may_be_about_it() -> None:
    row = table().row(CLIENT, BasicPublish.index)
    assert row is not None
    for exchange, names in {
        "orders.eu": ["orders", "all"],
        "old": ["rename", "all"],
        "new": ["all", "again"],
        "": ["all"],
    }.items():
        for _ in range(2):
            assert [case.rule.name for case in row.candidates(BasicPublish(exchange=exchange))] == names
    for number in range(2 * MAX_EXCHANGES):
        row.candidates(BasicPublish(exchange=f"{number}"))
    assert len(row._by_exchange) <= MAX_EXCHANGES


def test_what_is_no_message_may_name_an_exchange_elsewhere() -> None:
    row = table().row(CLIENT, ExchangeBind.index)
    assert row is not None
    assert [case.rule.name for case in row.candidates(ExchangeBind(destination="orders.eu"))] == ["orders"]


def test_names_in_server_commands_are_restored_in_reverse_order() -> None:
    row = table().row(SERVER, BasicDeliver.index)
    assert row is not None
    assert [case.rule.name for case, _ in row.restoring] == ["again", "rename"]
    assert row.is_restored_alike

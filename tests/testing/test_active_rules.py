"""Rules that are in force while blocks run."""

import pytest

from amqproxy.configuration.config import ConfigError
from amqproxy.rules.observing.tag import Tag
from amqproxy.testing.active_rules import ActiveRules, fault_rule, rules_of


def names(rules: tuple[object, ...]) -> list[str]:
    return [rule.name for rule in rules]  # type: ignore[attr-defined]


def tags(*found: str) -> tuple[Tag, ...]:
    return tuple(Tag(name=name, tags=("x",)) for name in found)


def test_blocks_add_up_from_the_outermost() -> None:
    active = ActiveRules()
    outer, inner = tags("a"), tags("b", "c")
    assert names(active.add(outer)) == ["a"]
    assert names(active.add(inner)) == ["a", "b", "c"]
    assert names(active.remove(outer)) == ["b", "c"]
    assert active.remove(inner) == active.all() == ()


def test_equal_rules_of_two_blocks_end_one_by_one() -> None:
    active = ActiveRules()
    first, second = tags(), tags()
    active.add(first)
    active.add(second)
    assert active.remove(first) == ()


def test_two_rules_of_a_name() -> None:
    active = ActiveRules()
    active.add(tags("a"))
    with pytest.raises(ValueError, match="`a` is the name of"):
        active.add(tags("b", "a"))
    assert names(active.all()) == ["a"]


def test_rules_of_a_text() -> None:
    text = '[[rules]]\nname = "a"\naction = "tag"\ntags = ["x"]\n'
    assert rules_of(text * 1) == tags("a")
    with pytest.raises(ConfigError, match=r"rules.toml:4: rule 'a', rules\[0\].tags"):
        rules_of(text.replace('["x"]', "7"))


def test_a_rule_of_a_mapping() -> None:
    assert rules_of({"name": "a", "action": "tag", "tags": ["x"]}) == tags("a")
    with pytest.raises(ConfigError, match=r"rule 'a', rules\[0\].tags"):
        rules_of({"name": "a", "action": "tag", "tags": 7})
    with pytest.raises(ConfigError, match=r"0\.tag"):
        rules_of({"name": "a", "action": "0.tag"})


def test_the_rule_of_a_fault() -> None:
    settings = {"delay": "200ms", "to": "client", "match": {"user": "u"}, "count": 3, "duration": "1s", "name": "slow"}
    assert fault_rule("latency", 2, settings) == {
        "name": "slow",
        "action": "fault",
        "match": {"user": "u"},
        "count": 3,
        "duration": "1s",
        "fault": {"kind": "latency", "delay": "200ms", "to": "client"},
    }
    assert fault_rule("nack", 2, {})["name"] == "nack 2"

"""The rule that the dashboard makes of what passed, whatever the names in it are."""

import cel
import pytest
import yaml

from amqproxy.amqp091.methods import BasicPublish
from amqproxy.amqp091.properties import Properties
from amqproxy.dashboard.rule_export import rule_of
from amqproxy.rules.matching.filters import compiled


@pytest.mark.parametrize(
    "name", ['a"b', "a\\b", "a\nb", "\x00", "\x9f", "\u2028", "\ue000", "\U000e0001", "naïve ☃", "*"], ids=ascii
)
def test_names_that_are_no_patterns_stand_in_the_condition(name: str) -> None:
    method = BasicPublish(exchange="", routing_key=name)
    (rule,) = yaml.safe_load("".join(rule_of(method, Properties(), None, None)))["rules"]
    compiled(rule["when"])  # it is a condition of ours
    assert "routing_key" not in rule["match"]
    assert cel.evaluate(rule["when"], {"exchange": "", "routing_key": name}) is True
    assert cel.evaluate(rule["when"], {"exchange": "", "routing_key": name + "x"}) is False

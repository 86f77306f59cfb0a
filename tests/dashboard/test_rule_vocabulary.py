"""The words of rules, for an editor that completes them."""

from __future__ import annotations

import msgspec
import pytest

from amqproxy.dashboard.rule_vocabulary import RuleVocabulary, rule_vocabulary
from amqproxy.rules.actions import AnyRule
from tests.dashboard.conftest import Dashboard

pytestmark = pytest.mark.once


def test_every_action_has_its_keys_and_values() -> None:
    words = rule_vocabulary()
    actions = {each.__struct_config__.tag for each in AnyRule.__args__}
    assert {words.tables[name].tag for name in words.rules} == {("action", action) for action in actions}
    hold, match = words.tables["Hold"], words.tables["Match"]
    assert hold.meaning.startswith("Hold a command")
    assert {"name", "match", "when", "mode", "timeout", "on_timeout", "count"} == {*hold.keys}
    assert hold.keys["on_timeout"].values == ["pass", "refuse"]
    assert hold.keys["match"].tables == ["Match"]
    assert "basic.publish" in match.keys["method"].values
    assert ("kind", "nack") in [words.tables[name].tag for name in words.tables["Fault"].keys["fault"].tables]
    assert {name for table in words.tables.values() for key in table.keys.values() for name in key.tables} <= {
        *words.tables
    }


def test_the_page_gets_them(dashboard: Dashboard) -> None:
    found = dashboard("confirms").get("/api/v1/rules/vocabulary").content
    assert msgspec.json.decode(found, type=RuleVocabulary) == rule_vocabulary()

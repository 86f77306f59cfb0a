"""Rules that are tried on what has passed, of either protocol."""

from __future__ import annotations

import asyncio

import pytest

from amqproxy.dashboard.capture_source import CaptureSource
from amqproxy.dashboard.frame_query import entries_for
from amqproxy.dashboard.frame_selection import FrameSelection
from amqproxy.dashboard.list_query import ListQuery
from amqproxy.dashboard.problem import Problem
from amqproxy.dashboard.rule_trial import try_rules
from tests.dashboard.conftest import capture_of

pytestmark = pytest.mark.once

RULES = "rules: [{name: none, action: refuse, match: {method: basic.publish}}]"


@pytest.mark.parametrize(
    ("capture", "method", "count"),
    [("confirms", "basic.publish", 3), ("brokerj9.2__jms-010-tx", "message.transfer", 5)],
)
def test_what_they_would_have_done(capture: str, method: str, count: int) -> None:
    source = CaptureSource(7, capture_of(capture), 1 << 24, lambda: None)
    asyncio.run(source.run())
    query = ListQuery()
    tried = asyncio.run(try_rules(entries_for(source.ring, query), FrameSelection(), query, RULES, "yaml"))
    assert {each["method"] for each in tried["results"]} == {method}
    assert tried["rules"] == [{"name": "none", "hits": count, "shadow_hits": 0, "failed": ""}]
    assert (tried["acted_on"], tried["commands"] > count) == (count, True)


def test_rules_that_are_wrong() -> None:
    with pytest.raises(Problem, match="rules"):
        asyncio.run(try_rules([], FrameSelection(), ListQuery(), "rules: [{}]", "yaml"))

"""What the keys of a limit come to, and what outlives a reload. The tables of each kind are beside it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from amqproxy.rules.limits.limit import Limit
from tests.rules.limits.limit_config import limit
from tests.rules.timeline import Timeline


def test_the_refusal_text_has_the_reason() -> None:
    def refusal(**keys: Any) -> str:
        timeline = Timeline(limit(**keys))
        evaluator = timeline.evaluator("a")
        rule = evaluator.ruleset.rules[0]
        assert isinstance(rule, Limit)
        return rule._measure.text

    assert refusal(of="messages", rate=2.5, act="refuse") == "more than 2.5 messages a second"
    assert (
        refusal(of="connections", most=3, per=["user", "vhost"])
        == "limit of 3 connections is reached per user and vhost"
    )
    assert refusal(of="channels", most=3, text="too many") == "too many"


def test_counts_outlive_a_reload_that_changes_only_how_many() -> None:
    timeline = Timeline(limit(of="channels", most=1))
    timeline.play("0 a1 channel.open   passes")
    for most, becomes in ((2, "passes"), (2, "closes channel 506"), (3, "passes")):
        ruleset = timeline.ruleset.replaced([limit(of="channels", most=most)])
        timeline.evaluators = {name: evaluator.moved(ruleset) for name, evaluator in timeline.evaluators.items()}
        timeline.ruleset = ruleset
        timeline.play(f"0 a{most + len(becomes)} channel.open   {becomes}")


def test_a_session_that_missed_a_reload_does_not_continue_an_abandoned_count() -> None:
    timeline = Timeline(limit(of="channels", most=1, per="user"))
    timeline.play("0 a1 channel.open   passes")
    for other in (limit(of="messages", rate=1), limit(of="channels", most=1, per="user")):
        timeline.ruleset = timeline.ruleset.replaced([other])  # the session is moved only after the second
    timeline.evaluators = {name: evaluator.moved(timeline.ruleset) for name, evaluator in timeline.evaluators.items()}
    timeline.play("0 a2 channel.open   passes")
    timeline.play("0 a3 channel.open   closes channel 506")


def test_a_reload_that_counts_something_else_begins_anew() -> None:
    rule = limit(of="channels", most=1)
    assert rule.continues(limit(of="channels", most=7, code=530))
    for other in (
        limit(of="consumers", most=1),
        limit(of="channels", most=1, per="user"),
        limit(of="channels", most=1, match={"user": "a"}),
        limit(of="messages", rate=1),
    ):
        assert not rule.continues(other)


def test_in_shadow_it_counts_as_it_would() -> None:
    timeline = Timeline(limit(of="consumers", most=1, mode="shadow"))
    timeline.play("""
        0    a1 basic.consume consumer_tag=x            passes
        0    a1 < basic.consume-ok consumer_tag=x       passes
        0    a1 basic.consume consumer_tag=y            passes
        0    a1 basic.cancel consumer_tag=x             passes
        0    a1 < basic.cancel-ok consumer_tag=x        passes
        0    a1 basic.consume consumer_tag=z            passes
    """)
    assert timeline.ruleset.counts()["limited"].shadow_hits == 1


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"of": "messages"}, "needs a `rate`"),
        ({"of": "messages", "rate": 0}, "rate"),
        ({"of": "messages", "rate": 1, "most": 1}, "does not take `most`"),
        ({"of": "channels"}, "needs a `most`"),
        ({"of": "channels", "most": 1, "burst": 2}, "does not take `rate` or `burst`"),
        ({"of": "channels", "most": 1, "act": "delay"}, "supports refuse, not delay"),
        ({"of": "deliveries", "rate": 1, "act": "block"}, "supports delay and refuse, not block"),
        ({"of": "prefetch", "most": 0}, "from 1 to 65535"),
        ({"of": "prefetch", "most": 5, "per": "user"}, "cannot be shared"),
        ({"of": "message_size", "most": "1 elephant"}, "is not a size"),
        ({"of": "channels", "most": 1, "per": []}, "empty list"),
        ({"of": "channels", "most": 1, "match": {"queue": "x"}}, "is about channel.open"),
        ({"of": "trouble", "most": 1}, "trouble"),
        ({"of": "channels", "most": 1, "excess": 1}, "excess"),
    ],
)
def test_what_makes_no_sense_is_refused(keys: dict[str, Any], why: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=why):
        limit(**keys)

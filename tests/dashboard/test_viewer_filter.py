"""Filters of viewers: those that could keep all other viewers waiting are refused."""

from __future__ import annotations

import pytest

from amqproxy.dashboard.viewer_filter import viewer_filter
from amqproxy.rules.matching.tokens import TextError

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    "expression",
    [
        "exchange == 'orders' && size > 100",
        "method in ['basic.publish', 'basic.deliver'] && body.contains('x')",
        "headers.x.exists(each, each == 'a' || each == 'b')",
        r"routing_key.matches('^order\\.[0-9]{1,8}$')",
        " || ".join(["size == 1"] * 300),
        "size == 1 + 2",
    ],
)
def test_what_people_ask_for_is_let_by(expression: str) -> None:
    assert viewer_filter(expression).expression == expression


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("size(" + "+".join(["string(body)"] * 300) + ") > 1", "more than 16"),
        ("size(" + "+".join(["body"] * 700) + ") > 1", "more than 16 sums"),
        (" || ".join(f"body.contains('{number}')" for number in range(100)), "more than 16 calls"),
        (" || ".join(f"body.matches('{number}')" for number in range(5)), "more than 4 patterns"),
        ("body.matches('((a|b){1,50}){1,30}c')", "this pattern could take long"),
        ("body.matches('a{999999999999}')", "not a regular expression"),
        ("headers.x.all(i, " + " && ".join(["i != 1"] * 100) + ")", "more than 16 operators beside a macro"),
        (" && ".join(["headers.x.all(i, i != 1)"] * 3), "more than 2 macros"),
        ("!" * 4000 + "true", "too many nested operators"),
    ],
)
def test_what_could_take_long_is_refused(expression: str, reason: str) -> None:
    with pytest.raises(TextError, match=reason):
        viewer_filter(expression)

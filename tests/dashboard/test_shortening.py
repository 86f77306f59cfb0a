"""What is kept of what a client has said of itself."""

from __future__ import annotations

import pytest

from amqproxy.dashboard.shortening import MAX_ENTRIES, MAX_TEXT, MAX_VALUES, shortened

pytestmark = pytest.mark.once


def test_what_is_short_stays() -> None:
    values = {"product": "pika", "capabilities": {"confirms": True, "list": [1, 2.5, None]}}
    assert shortened(values) == values


def test_what_is_long_is_cut() -> None:
    found = shortened({"text": "x" * 100_000, "list": list(range(100_000)), "table": {str(n): n for n in range(1000)}})
    assert found["text"] == "x" * MAX_TEXT + "…"
    assert len(found["list"]) == len(found["table"]) == MAX_ENTRIES + 1


def test_what_is_deep_or_branches_out_is_cut() -> None:
    deep: dict[str, object] = {}
    for _ in range(500):
        deep = {"a": deep}
    assert len(str(shortened(deep))) < 100
    wide = {str(a): {str(b): {str(c): "x" for c in range(30)} for b in range(30)} for a in range(30)}
    assert str(shortened(wide)).count("x") <= MAX_VALUES

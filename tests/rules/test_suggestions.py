"""Suggestions in errors."""

from __future__ import annotations

from amqproxy.rules.suggestions import did_you_mean


def test_the_closest_name_is_suggested() -> None:
    assert did_you_mean("rewrit", ["refuse", "rewrite", "write"]) == ": did you mean `rewrite`?"


def test_nothing_is_suggested_where_no_name_is_close() -> None:
    assert did_you_mean("x", ["refuse", "rewrite"]) == ""
    assert did_you_mean("x", []) == ""

"""Regular expressions held against names."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.rules.matching.name_pattern import MOST_CHARACTERS, bounded_name_pattern, name_pattern

LIKE_PYTHON = [
    "",
    "^$",
    ".*",
    "^amq\\.",
    "a|b",
    "^(?!amq\\.).*",
    "^(?!amq\\.)(?!b).*$",
    "^(?!a[)(]b)",
    "^(?!a(b|c))(a.|b)",
    "^(?=a)(?!ab).+",
    "\\A(?!amq)",
    "^(?!a\\))b?",
    "^(?![]a])",
    "^(?:a|b)$",
]


@given(st.sampled_from(LIKE_PYTHON), st.text(alphabet="abcmq.)(]", max_size=6) | st.sampled_from(["amq.gen", "amq"]))
def test_fits_as_a_backtracking_expression_does(pattern: str, name: str) -> None:
    assert name_pattern(pattern).fits(name) == (re.search(pattern, name) is not None)


@pytest.mark.parametrize("name", ["q\udcff", "\u00e9"])
def test_any_name_can_be_asked_about(name: str) -> None:
    assert name_pattern(".").fits(name)
    assert not name_pattern("^q$").fits(name)


@pytest.mark.parametrize("pattern", ["(", "(a)\\1", "a(?!b)", "(?<!a)b", "a++", "^(?!a)b|c", "^(?!a", "x{1001}"])
def test_what_cannot_be_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"`{pattern}`")):
        name_pattern(pattern)


def test_no_pattern_takes_longer_than_its_name_is_long() -> None:
    """A backtracking one would not end before the sun does."""
    assert not name_pattern("^(?!(b+)+c)(a+)+$").fits("a" * 250 + "b")


@pytest.mark.parametrize("pattern", ["a" * (MOST_CHARACTERS + 1), r"[\pL\pN]{50}", "("])
def test_a_pattern_of_any_user_is_bounded(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"the most|`"):
        bounded_name_pattern(pattern, ignores_case=True)


def test_a_bounded_pattern_fits_as_others_do() -> None:
    assert bounded_name_pattern("^(?!AMQ)Q", ignores_case=True).fits("queue")
    assert not bounded_name_pattern("^(?!AMQ)Q", ignores_case=True).fits("amq.gen")
    before = name_pattern.cache_info()
    bounded_name_pattern("^orders$")
    assert name_pattern.cache_info() == before

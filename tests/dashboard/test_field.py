"""What the panes of a frame show of a part of it."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.dashboard.field import (
    MAX_FILTER_TEXT,
    MAX_TEXT,
    SAFE_INTEGER,
    filter_for,
    inner_path,
    rest_of_entries,
    shown,
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('a "b"', 'x == "a \\"b\\""'),
        (7, "x == 7"),
        (-3, "x == -3"),
        (True, "x == true"),
        (0.5, ""),
        (2**63, ""),
        ("a" * (MAX_FILTER_TEXT + 1), ""),
        (None, ""),
    ],
)
def test_the_expression_for_what_is_alike(value: Any, expected: str) -> None:
    assert filter_for("x", value) == expected


def test_what_is_under_a_name() -> None:
    assert inner_path("headers", 'a"é') == 'headers["a\\"é"]'
    assert (inner_path("", "a"), inner_path("headers", {"base64": ""})) == ("", "")


def test_what_is_shown_is_what_javascript_has() -> None:
    assert [shown(each) for each in (SAFE_INTEGER, SAFE_INTEGER + 1, True)] == [2**53, str(2**53 + 1), True]
    assert len(shown("a" * 10_000)) == MAX_TEXT + 1


def test_the_rest_of_many_entries() -> None:
    assert rest_of_entries(3, 10).value == "7 bytes"

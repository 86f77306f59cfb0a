"""Texts cut into tokens, and errors that point at one."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.rules.matching.tokens import TextError, Token, tokens_of

PATTERN = re.compile(r"(?P<blank>\s+)|(?P<word>\w+)|(?P<sign>.)", re.DOTALL)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [("end", "", 0)]),
        ("  ", [("end", "", 2)]),
        ("a1 ", [("word", "a1", 0), ("end", "", 3)]),
        (" to=\nb", [("word", "to", 1), ("sign", "=", 3), ("word", "b", 5), ("end", "", 6)]),
    ],
)
def test_a_text_in_pieces(text: str, expected: list[tuple[str, str, int]]) -> None:
    assert tokens_of(text, PATTERN) == [Token(*each) for each in expected]


@given(st.text("aé1= \n\t"))
def test_every_piece_is_found_at_its_place(text: str) -> None:
    *pieces, end = tokens_of(text, PATTERN)
    assert end == Token("end", "", len(text))
    assert all(text[each.place : each.place + len(each.text)] == each.text for each in pieces)
    assert "".join(each.text for each in pieces) == "".join(text.split())


def test_what_is_wrong_points_at_its_place() -> None:
    assert str(TextError("odd", "a =\n b", 5)) == "odd (line 2, column 2)\n     b\n     ^"
    assert isinstance(TextError("odd", "", 0), ValueError)

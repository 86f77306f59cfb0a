"""How what is wrong is pointed at."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from amqproxy.rules.matching.diagnostics import MAX_SHOWN, pointed


def test_a_caret_under_the_place() -> None:
    assert pointed("odd", "a\n\tb c", 5) == "odd (line 2, column 4)\n    \tb c\n    \t  ^"
    assert pointed("odd", "", 0) == "odd (line 1, column 1)\n    \n    ^"


@given(st.text("ab \n\t", max_size=300), st.integers(0, 300))
def test_the_caret_is_under_the_character(text: str, place: int) -> None:
    place = min(place, len(text))
    first, line, caret = pointed("odd", text, place).split("\n")
    assert first.startswith("odd (line ")
    if place < len(text) and text[place] != "\n":
        assert line[caret.index("^")] == text[place]


def test_of_a_long_line_only_what_is_around_the_place() -> None:
    _, line, caret = pointed("odd", "a" * 500 + "b" + "a" * 500, 500).split("\n")
    assert len(line) <= MAX_SHOWN + 6
    assert line[caret.index("^")] == "b"

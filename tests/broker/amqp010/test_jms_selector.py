"""Selectors of JMS: each rule of section 3.8.1 by examples, and properties of all."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.broker.amqp010.jms_selector import MOST_TEXT, JmsSelector, SelectorError

PROPERTIES: dict[str, Any] = {
    "n": 5,
    "z": 0,
    "f": 2.5,
    "s": "abc",
    "quote": "it's",
    "percent": "10%",
    "t": True,
    "no": False,
    "NULLABLE": "x",
    "$a_1": 1,
}


@pytest.mark.parametrize(
    ("text", "is_chosen"),
    [
        ("n = 5", True),
        ("n = 5.0", True),
        ("n <> 5", False),
        ("n > 4 AND n < 6", True),
        ("n >= 5 and n <= 5", True),
        ("f > 2 OR none = 1", True),
        ("none = 1", False),
        ("NOT none = 1", False),
        ("NOT (n = 6)", True),
        ("none IS NULL", True),
        ("n IS NULL", False),
        ("n IS NOT NULL", True),
        ("none is not null", False),
        ("n BETWEEN 5 AND 7", True),
        ("n NOT BETWEEN 5 AND 7", False),
        ("none NOT BETWEEN 5 AND 7", False),
        ("n BETWEEN 7 AND 5", False),
        ("s IN ('x', 'abc')", True),
        ("s NOT IN ('x', 'abc')", False),
        ("none IN ('x')", False),
        ("none NOT IN ('x')", False),
        ("s LIKE 'a%'", True),
        ("s LIKE '%b%'", True),
        ("s LIKE 'a_c'", True),
        ("s LIKE 'a_'", False),
        ("s LIKE 'ab'", False),
        ("s LIKE '%abc'", True),
        ("s LIKE 'abc%c'", False),
        ("s NOT LIKE 'x%'", True),
        ("percent LIKE '10!%' ESCAPE '!'", True),
        ("s LIKE 'ab!%' ESCAPE '!'", False),
        ("none NOT LIKE 'x'", False),
        ("n LIKE '5'", False),
        ("quote = 'it''s'", True),
        ("t", True),
        ("no", False),
        ("NOT no", True),
        ("s", False),
        ("t = TRUE", True),
        ("t = 'true'", False),
        ("t <> FALSE", True),
        ("s = 5", False),
        ("s <> 5", False),
        ("s < 'b'", False),
        ("NOT s = 5", True),
        ("n + 1 = 6", True),
        ("n * 2 - 3 = 7", True),
        ("-n = -5", True),
        ("n / 2 = 2", True),
        ("n % 3 = 2", True),
        ("-n % 3 = -2", True),
        ("n % 0 = 0", False),
        ("f % 2 = 0.5", True),
        ("f % 0 = 0", False),
        ("n * 3 % 4 + 1 = 4", True),
        ("-n / 2 = -2", True),
        ("n / 2.0 = 2.5", True),
        ("n / z = 1", False),
        ("none + 1 = 1", False),
        ("NOT none + 1 = 1", False),
        ("2 + 3 * 2 = 8", True),
        ("(2 + 3) * 2 = 10", True),
        ("n = 5L", True),
        ("n = 0x5", True),
        ("f = 25e-1", True),
        ("f = 2.5d", True),
        ("f < 1E3", True),
        ("f > .5", True),
        ("NULLABLE = 'x'", True),
        ("$a_1 = 1", True),
        ("t OR none = 1", True),
        ("no OR none = 1", False),
        ("no AND none = 1", False),
        ("NOT (no AND none = 1)", True),
        ("NOT (t AND none = 1)", False),
        ("TRUE", True),
        ("  n = 5  ", True),
    ],
)
def test_what_is_chosen(text: str, is_chosen: bool) -> None:
    assert JmsSelector(text).matches(PROPERTIES.get) is is_chosen


@pytest.mark.parametrize(
    "text",
    [
        "",
        "n =",
        "= 5",
        "n 5",
        "n = 5 AND",
        "(n = 5",
        "n = 5)",
        "n = 'x",
        "n NOT = 5",
        "n IS 5",
        "n LIKE 5",
        "s LIKE 'x' ESCAPE '!!'",
        "s LIKE 'x!' ESCAPE '!'",
        "s IN ()",
        "s IN (5)",
        "n ; 5",
        "AND",
        "n = #",
        "s LIKE '" + "x" * 300 + "'",
        "n = 1 OR " * 1000 + "n = 1",
        "(" * 60 + "n = 1" + ")" * 60,
    ],
)
def test_what_is_no_selector(text: str) -> None:
    with pytest.raises(SelectorError):
        JmsSelector(text)


_LITERALS = st.one_of(
    st.integers(0, 1 << 63).map(str),
    st.floats(0, 1e300).map(repr),
    st.text(max_size=5).map(lambda text: "'" + text.replace("'", "''") + "'"),
    st.sampled_from(["TRUE", "FALSE", "a", "b", "c"]),
)
_VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5))


def _expressions(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(["=", "<>", "<", ">=", "+", "-", "*", "/", "AND", "OR"])
    texts = st.text(max_size=3).map(lambda text: "'" + text.replace("'", "''") + "'")
    return st.one_of(
        st.tuples(inner, operators, inner).map(lambda each: "({} {} {})".format(*each)),
        inner.map(lambda each: f"(NOT {each})"),
        inner.map(lambda each: f"({each} IS NULL)"),
        st.tuples(inner, inner, inner).map(lambda each: "({} BETWEEN {} AND {})".format(*each)),
        st.tuples(inner, texts).map(lambda each: "({} LIKE {})".format(*each)),
        st.tuples(inner, texts, texts).map(lambda each: "({} IN ({}, {}))".format(*each)),
    )


SELECTORS = st.recursive(_LITERALS, _expressions, max_leaves=12)
MESSAGES = st.fixed_dictionaries({"a": _VALUES, "b": _VALUES, "c": _VALUES})


@given(SELECTORS, MESSAGES)
def test_it_is_chosen_or_its_negation_is_or_it_is_unknown(text: str, message: dict[str, Any]) -> None:
    chosen = JmsSelector(text).matches(message.get)
    negated = JmsSelector(f"NOT {text}").matches(message.get)
    assert not (chosen and negated)
    assert JmsSelector(f"NOT NOT {text}").matches(message.get) is chosen


@given(SELECTORS, SELECTORS, MESSAGES)
def test_and_and_or_belong_together(left: str, right: str, message: dict[str, Any]) -> None:
    def chosen(text: str) -> bool:
        return JmsSelector(text).matches(message.get)

    assert chosen(f"{left} AND {right}") is (chosen(left) and chosen(right))
    assert chosen(f"{left} OR {right}") is (chosen(left) or chosen(right))
    assert chosen(f"NOT ({left} OR {right})") is chosen(f"NOT {left} AND NOT {right}")


@given(st.text())
def test_any_text_is_a_selector_or_is_refused(text: str) -> None:
    with suppress(SelectorError):
        JmsSelector(text).matches(PROPERTIES.get)


@given(st.text("ab%_", max_size=8), st.text("ab", max_size=12))
def test_like_is_as_it_is_defined(pattern: str, text: str) -> None:
    def is_like(pattern: str, text: str) -> bool:
        if not pattern:
            return not text
        if pattern[0] == "%":
            return any(is_like(pattern[1:], text[start:]) for start in range(len(text) + 1))
        return bool(text) and pattern[0] in ("_", text[0]) and is_like(pattern[1:], text[1:])

    assert JmsSelector(f"s LIKE '{pattern}'").matches({"s": text}.get) is is_like(pattern, text)


@pytest.mark.parametrize(
    ("text", "is_chosen"),
    [
        ("n" + "+1" * 2000 + " = 2005", True),
        ("n" + "*1" * 2000 + " = 5", True),
        ("n" + "+none" * 800 + " = 5", False),
        ("s=''" + " OR n=5" * 580, True),
        ("n=5" + " AND n=5" * 510, True),
        ("n=5" + " AND n=5" * 500 + " AND n=6", False),
    ],
)
def test_any_number_of_conditions_and_operands(text: str, is_chosen: bool) -> None:
    assert JmsSelector(text).matches(PROPERTIES.get) is is_chosen


def test_like_of_a_long_text_is_unknown() -> None:
    found = {"s": "x" * MOST_TEXT, "long": "x" * (MOST_TEXT + 1)}
    assert JmsSelector("s LIKE 'x%'").matches(found.get)
    assert not JmsSelector("long LIKE 'x%'").matches(found.get)
    assert not JmsSelector("long NOT LIKE 'x%'").matches(found.get)


@pytest.mark.parametrize(
    ("text", "is_chosen"),
    [
        ("n = 9223372036854775807", True),
        ("-n > -9223372036854775808", True),
        ("n + 1 > 0", False),
        ("NOT n + 1 > 0", False),  # it is unknown
        ("n * 2.0 > 0", True),
        ("-9223372036854775808 < n", True),
    ],
)
def test_integers_are_of_64_bits(text: str, is_chosen: bool) -> None:
    assert JmsSelector(text).matches({"n": 2**63 - 1}.get) is is_chosen


@pytest.mark.parametrize("number", ["9223372036854775809", "0x8000000000000001", "9" * 4000])
def test_larger_ones_are_none(number: str) -> None:
    with pytest.raises(SelectorError, match="more than 64 bits hold"):
        JmsSelector(f"n = {number}")


def test_what_all_likes_look_for_anywhere_is_bounded() -> None:
    part = "_" * 60
    four = " OR ".join([f"a LIKE '%{part}%'"] * 4)
    assert JmsSelector(four).matches({"a": part}.get)
    with pytest.raises(SelectorError, match="more than 255 characters between percent signs"):
        JmsSelector(f"{four} OR a LIKE '%{part}x%'")
    exact = "x!_" * 60
    assert JmsSelector(" OR ".join([f"a LIKE '%{exact}%' ESCAPE '!'"] * 9)).matches({"a": "x_" * 60}.get)


def test_the_cost_grows_with_what_there_is_to_do() -> None:
    costs = [JmsSelector(text).cost for text in ("n = 5", "n = 5 OR n = 6", "s LIKE '%x%'")]
    assert costs == sorted(set(costs))


def test_a_number_that_is_none() -> None:
    assert not JmsSelector("a = a").matches({"a": math.nan}.get)

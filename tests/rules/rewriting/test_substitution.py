"""Texts in place of what regular expressions match."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.rules.matching.patterns import regular_expression
from amqproxy.rules.rewriting.substitution import Substitution, TooMuchWork


def substituted(pattern: str, template: str, text: str) -> str:
    return Substitution(regular_expression(pattern), template).applied(text.encode()).decode()


@pytest.mark.parametrize(
    ("pattern", "template", "text", "expected"),
    [
        ("o", "0", "foo", "f00"),
        ("o", "é", "foo", "féé"),
        ("é+", "e", "éé-é", "e-e"),
        ("x*", "-", "abxc", "-a-b--c-"),
        ("", ".", "éa", ".é.a."),
        (r"\b", "|", "a b", "|a| |b|"),
        ("(a)|b", r"<\1>", "ab", "<a><>"),
        ("(?P<n>a)", r"\g<n>\g<1>\g<0>", "ba", "baaa"),
        ("(a)", r"\\1\\\1", "a", "\\1\\a"),
        ("(a)", r"\101\n\x41\u00e9\.", "a", "A\nAé\\."),
        ("a", "", "banana", "bnn"),
        ("a", r"\g<0>!", "ba", "ba!"),
        ("nothing", "x", "some", "some"),
    ],
)
def test_what_is_put_in_place(pattern: str, template: str, text: str, expected: str) -> None:
    assert substituted(pattern, template, text) == expected


@given(
    st.sampled_from(["a", "[ab]+", "a*", "(a)(b)?", "", "é", "a|bé", ".", "^a", "b$"]),
    st.text("abé\U0001f600\n"),
)
def test_it_is_what_the_library_makes_of_it(pattern: str, text: str) -> None:
    expression = regular_expression(pattern)
    template = r"<\1>" if expression.groups else "<>"
    assert substituted(pattern, template, text) == expression.sub(template, text)


@pytest.mark.parametrize("template", [r"\2", r"\g<2>", r"\g<name>", "\\", r"\x4", r"\N{nobody}"])
def test_a_template_that_is_none(template: str) -> None:
    with pytest.raises(ValueError, match=r"group|escape"):
        Substitution(regular_expression("(a)"), template)


class Counting:
    """An expression that counts how often it is asked, and for how many matches."""

    def __init__(self, pattern: str) -> None:
        self._expression = regular_expression(pattern)
        self.pattern = pattern
        self.groups = self._expression.groups
        self.asked = self.matches = 0

    def finditer(self, text: bytes) -> Iterator[Any]:
        self.asked += 1
        for match in self._expression.finditer(text):
            self.matches += 1
            yield match


@pytest.mark.parametrize("count", [100, 10_000])
def test_each_match_is_looked_for_once(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amqproxy.rules.rewriting.substitution.thread_time", lambda: 0.0)
    expression = Counting("[0-9]")
    assert Substitution(expression, "-").applied(b"7." * count) == b"-." * count
    assert (expression.asked, expression.matches) == (1, count)


def test_a_word_is_replaced_without_a_match_for_each() -> None:
    expression = Counting("secret")
    assert Substitution(expression, "*").applied(b"a secret secret") == b"a * *"
    assert expression.asked == 0


def test_what_would_be_too_much_work_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock finds that 30 ms have gone by."""
    looks = 0

    def clock() -> float:
        nonlocal looks
        looks += 1
        return looks * 0.03

    monkeypatch.setattr("amqproxy.rules.rewriting.substitution.thread_time", clock)
    expression = Counting("a.*z|a")
    with pytest.raises(TooMuchWork):
        Substitution(expression, "-").applied(b"a" * 10_000)
    assert (looks, expression.matches) == (5, 64)

"""Patterns: against fnmatch, against Python's re, and against a topic exchange."""

from __future__ import annotations

import fnmatch
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091.wire import Table
from amqproxy.broker.exchanges.exchange import NO_ARGUMENTS, Binding
from amqproxy.broker.exchanges.topic import TopicExchange
from amqproxy.broker.message import Message
from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.vhost import VirtualHost
from amqproxy.rules.matching.patterns import Patterns, exact, glob, predicate, regular_expression, sound, topic

MESSAGE = Message("x", "", bytes(14), b"")


@pytest.mark.parametrize(
    ("patterns", "text", "does_match"),
    [
        ("orders", "orders", True),
        ("orders", "Orders", False),
        ("orders", "orders.eu", False),
        ("orders.*", "orders.eu", True),
        ("orders.*", "orders.", True),
        ("orders.*", "orders", False),
        ("*.eu", "orders.eu", True),
        ("*", "", True),
        ("?", "", False),
        ("?", "ü", True),
        ("a*c?e", "abcbcde", True),
        ("a[bc]", "a[bc]", True),
        ("a[bc]", "ab", False),
        ("a*\n", "a\n\n", True),
        ("", "", True),
        ("", "a", False),
        ("!orders", "orders", False),
        ("!orders", "else", True),
        ("!!a", "a", True),
        ("is:a*", "a*", True),
        ("is:a*", "ab", False),
        ("is:!a", "!a", True),
        ("regex:a+", "aa", True),
        ("regex:a+", "aab", False),
        ("regex:(?i)A", "a", True),
        ("regex:.", "\udc80", True),
        ("regex:secret.*", "secret.\na", True),
        ("regex:secret", "secret\n", False),
        ("regex:secret$", "secret\n", False),
        ("regex:^secret$", "a\nsecret", False),
        ("!regex:secret.*", "secret.\na", False),
        ("topic:a.*.#", "a.b", True),
        ("topic:a.*.#", "a", False),
        (("a", "b*"), "bc", True),
        (("a", "b"), "b", True),
        (("a", "b"), "c", False),
        (("a*", "!ab"), "ab", False),
        (("a*", "!ab"), "ac", True),
        (("!a", "!b"), "a", False),
        (("!a", "!b"), "c", True),
    ],
)
def test_patterns(patterns: Patterns, text: str, does_match: bool) -> None:
    assert predicate(patterns)(text) is does_match


@pytest.mark.parametrize(
    ("patterns", "words"),
    [
        ("a", {"a"}),
        ("is:a*", {"a*"}),
        (("a", "is:b"), {"a", "b"}),
        ("a*", None),
        ("!a", None),
        (("a", "topic:b"), None),
    ],
)
def test_words_that_stand_for_themselves(patterns: Patterns, words: set[str] | None) -> None:
    assert exact(patterns) == words


@pytest.mark.parametrize(
    ("patterns", "what"),
    [
        ("regex:a(", "`a(` is not a regular expression: missing ): a("),
        ("regex:(?=a)", "is not a regular expression"),
        (("a", "!regex:["), "is not a regular expression"),
        ((), "the list is empty"),
    ],
)
def test_what_is_no_pattern(patterns: Patterns, what: str) -> None:
    with pytest.raises(ValueError, match=re.escape(what)):
        predicate(patterns)


few = st.text("ab.*?[", max_size=8)


@given(few, few)
def test_globs_are_as_fnmatch_has_them_but_for_brackets(pattern: str, text: str) -> None:
    escaped = pattern.replace("[", "[[]")
    assert glob(pattern)(text) is fnmatch.fnmatchcase(text, escaped)
    assert predicate(f"*{pattern}")(text) is fnmatch.fnmatchcase(text, f"*{escaped}")


@given(st.text("ab.|()*+?^$[]", max_size=6), st.text("ab\n", max_size=6))
def test_regular_expressions_are_as_python_has_them(pattern: str, text: str) -> None:
    try:
        expected = re.compile(pattern, re.ASCII)
        found = regular_expression(pattern)
    except (re.error, ValueError, FutureWarning):
        return  # each refuses things that the other takes
    if "+" in pattern.replace("a+", "").replace("b+", "") or "$" in pattern:
        return  # possessive in Python; and `$` before a line's end
    assert (found.fullmatch(text) is not None) is (expected.fullmatch(text) is not None)


words = st.lists(st.sampled_from(["a", "b", "", "*", "#"]), max_size=5).map(".".join)


@given(words, words)
def test_topics_are_as_a_topic_exchange_has_them(pattern: str, key: str) -> None:
    exchange = TopicExchange("x")
    exchange.bind(Binding(Queue("q", VirtualHost("/"), arguments=Table()), pattern, NO_ARGUMENTS))
    assert topic(pattern)(key) is bool(list(exchange.route(key, MESSAGE)))


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("regex:(a*)*b", "a" * 200_000),
        ("*a" * 20 + "b", "a" * 255),
        ("topic:" + "#.a." * 20 + "b", ".".join("a" * 120)),
    ],
)
def test_no_text_takes_a_pattern_long(pattern: str, text: str) -> None:
    holds = predicate(pattern)
    begun = time.process_time()
    assert not holds(text)
    assert time.process_time() - begun < 1


def test_text_that_is_no_utf8() -> None:
    assert sound("a\udc80é") == "a\ufffdé"
    assert sound("abc") == "abc"

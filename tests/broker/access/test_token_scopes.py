"""Scopes of tokens: which count, what they permit, and patterns. RabbitMQ's answers are in tests/management."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.broker.access.token_scopes import (
    MOST_SCOPES,
    Grant,
    TooManyScopes,
    encoded,
    expanded,
    fits,
    grants_of,
    pattern_of,
    scopes_of,
    tags_of,
)
from amqproxy.configuration.token_config import BrokerTokens

SETTINGS = BrokerTokens(keys="keys.json")


@pytest.mark.parametrize(
    ("claims", "more", "expected"),
    [
        ({}, {}, []),
        ({"scope": "rabbitmq.b  rabbitmq.a other.c rabbitmq.a"}, {}, ["a", "b"]),
        ({"scope": ["rabbitmq.a", 5, None]}, {}, ["a"]),
        ({"scope": 5}, {}, []),
        ({"scope": "a:b"}, {"scope_prefix": ""}, ["a:b"]),
        ({"scope": "mine:a"}, {"scope_prefix": "mine:"}, ["a"]),
        ({"scope": "boss mate"}, {"scope_aliases": {"boss": "rabbitmq.a other", "mate": ("rabbitmq.c",)}}, ["a", "c"]),
        ({"list": ["rabbitmq.a"], "x": {"y": "rabbitmq.b"}}, {"additional_scopes_key": "list x.y no.ne"}, ["a", "b"]),
        ({"roles": {"rabbitmq": "a b", "other": "c"}}, {"additional_scopes_key": "roles"}, ["a", "b"]),
        ({"authorization": {"permissions": [{"scopes": ["rabbitmq.a"]}, 5, {}]}}, {}, ["a"]),
    ],
)  # fmt: skip
def test_scopes_with_the_prefix_count(claims: dict[str, Any], more: dict[str, Any], expected: list[str]) -> None:
    assert scopes_of(claims, BrokerTokens(keys="keys.json", **more)) == expected


def test_their_number_is_bounded() -> None:
    scopes = [f"rabbitmq.{number}" for number in range(MOST_SCOPES)]
    assert len(scopes_of({"scope": scopes * 2}, SETTINGS)) == MOST_SCOPES
    with pytest.raises(TooManyScopes, match="2049 scopes"):
        scopes_of({"scope": [*scopes, "rabbitmq.more"]}, SETTINGS)


def test_tags_are_scopes() -> None:
    assert tags_of(["read:a/b", "tag:management", "tag:x:y"]) == ("management", "x:y")


def test_permissions_have_two_or_three_patterns() -> None:
    scopes = ["read:v/n", "write:{vhost}/{sub}/k", "configure:*", "all:v/n", "read:a/b/c/d", "tag:read:a/b"]
    assert list(grants_of(scopes, {"sub": "me"}, "here")) == [
        Grant("read", (b"v",), (b"n",), None),
        Grant("write", (b"here",), (b"me",), (b"k",)),
    ]


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("read:{vhost}/*", "read:v/*"),
        ("{team}{number}{none}", "rednumbernone"),
        ("read:{a.b}/x", ""),
        ("read:{team", "read:red"),
        ("read:{", "read:"),
        ("a}b", "a}b"),
    ],
)
def test_variables_are_the_virtual_host_and_claims(scope: str, expected: str) -> None:
    assert expanded(scope, {"team": "red", "number": 5}, "v") == expected


@pytest.mark.parametrize(
    ("pattern", "texts", "others"),
    [
        ("*", ["", "a", "a/b"], []),
        ("", [""], ["a"]),
        ("a", ["a"], ["", "ab", "ba"]),
        ("a*", ["a", "ab"], ["", "ba"]),
        ("*a", ["a", "ba"], ["", "ab", "aba"]),  # RabbitMQ does not go back
        ("a*b*c", ["abc", "axbxc", "abbc"], ["ab", "abcx", "acb"]),
        ("a**b", ["ab", "axb"], ["a", "b"]),
        ("a%2Fb", ["a/b"], ["a%2Fb"]),
        ("a%2a", ["a*"], ["ab"]),
        ("a+b", ["a b"], ["a+b"]),
        ("%C3%A9", ["é"], ["e"]),
        ("%zz", [], ["%zz", "zz", ""]),
        ("a.b", ["a.b"], ["axb"]),
    ],
)
def test_patterns(pattern: str, texts: list[str], others: list[str]) -> None:
    assert [each for each in [*texts, *others] if fits(pattern_of(pattern), encoded(each))] == texts

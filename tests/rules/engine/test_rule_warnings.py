"""What is doubtful about rules that load."""

from __future__ import annotations

import pytest

from amqproxy.rules.engine.rule_warnings import find_warnings
from tests.rules.scene import rule


def found(*texts: str) -> list[str]:
    return list(find_warnings([rule(text) if "name" in text else rule(text, name="r") for text in texts]))


def listed(lines: str, more: str = "") -> list[str]:
    return found(f'action = "acl"\n{more}\nlines = """\n{lines}\n"""')


def test_a_list_that_no_client_gets_past() -> None:
    assert listed('allow user "a" to publish exchange "e"\notherwise deny') == [
        "rule 'r': line 2 locks all clients out: no line before it allows any to connect"
    ]
    assert listed('deny anyone to connect\nallow user "a" to any')[0].startswith(
        "rule 'r': line 1 locks all clients out"
    )
    assert listed('allow user "a" to any\notherwise deny') == []
    assert listed('allow user "a" to connect\notherwise deny') == []
    assert listed("otherwise allow") == []
    assert listed("otherwise deny", 'match.vhost = "a"') == []
    assert listed("otherwise deny", 'mode = "shadow"') == []


@pytest.mark.parametrize(
    ("first", "second", "is_shadowed"),
    [
        ("allow anyone to any", 'deny user "a" to publish exchange "e"', True),
        ('allow anyone to publish exchange "e"', 'deny user "a" to publish exchange "e"', True),
        ('allow anyone to publish exchange "e*"', 'deny user "a" to publish exchange "e"', False),
        ('allow user "a" to publish', 'deny user "b" to publish', False),
        ("allow anyone to publish", "deny anyone to publish, consume", False),
        ('allow anyone to publish exchange "e" routing_key "k"', 'deny anyone to publish exchange "e"', False),
    ],
)
def test_a_line_that_is_never_asked(first: str, second: str, is_shadowed: bool) -> None:
    text = "rule 'r': line 2 is never evaluated: line 1 is about all that it is about"
    assert (text in listed(f"{first}\n{second}")) is is_shadowed


def test_rules_behind_one_that_allows_all() -> None:
    allow, refuse = 'action = "allow"\nname = "all"', 'action = "refuse"\nname = "no"\nmatch.exchange = "e"'
    assert found(allow, refuse) == ["rule 'no' is never evaluated: 'all' is about every command, and ends the rules"]
    assert found(refuse, allow) == []
    assert found(f'{allow}\nmatch.user = "a"', refuse) == []
    assert found(f'{allow}\nmode = "shadow"', refuse) == []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "it locks all clients out: it refuses each connection.open"),
        ('match.method = "connection.*"', "it locks all clients out"),
        ('match = {method = "connection.open", vhost = "a"}', ""),
        (
            'match = {method = "basic.publish", exchange = "e"}',
            "it refuses basic.publish, but exchange.bind and exchange.declare and queue.bind and queue.declare bring",
        ),
        ('match = {exchange = "e"}', ""),
        ('match = {method = "basic.consume", queue = "q"}', "it refuses basic.consume, but basic.get takes messages"),
        ('match = {method = ["basic.consume", "basic.get"], queue = "q"}', ""),
        ('match = {method = "basic.publish", size = {min = 10}}', ""),
        ("when = \"exchange == 'e'\"", "`exchange` in its `when` is the method's own; `exchanges` are all that"),
        ("when = \"'e' in exchanges\"", ""),
        ("when = \"user == 'a'\"", ""),
    ],
)
def test_refusals(text: str, what: str) -> None:
    lines = found(f'action = "refuse"\n{text}')
    assert (lines == []) if not what else lines[0].startswith(f"rule 'r': {what}")

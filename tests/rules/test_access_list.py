"""The lines of an access list: what they say, and how what is wrong with them is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.rules.access_list import ACTS, Line, parse
from amqproxy.rules.match import Match
from amqproxy.rules.token import TextError


def test_a_line_is_a_match_for_each_act() -> None:
    text = """
    # who may publish
    allow user "orders-*", "ops" to publish, declare exchange "orders.*"; deny anyone to purge
    """
    assert parse(text) == (
        Line(
            "3",
            'allow user "orders-*", "ops" to publish, declare exchange "orders.*"',
            True,
            (
                Match(method=("basic.publish",), user=("orders-*", "ops"), exchange=("orders.*",)),
                Match(method=("exchange.declare",), user=("orders-*", "ops"), exchange=("orders.*",)),
            ),
        ),
        Line("3b", "deny anyone to purge", False, (Match(method=("queue.purge",)),)),
    )


def test_any_is_all_that_has_what_is_named() -> None:
    (line,) = parse('allow anyone to any queue "q" routing_key "k"')
    assert line.matches == (Match(method=("queue.bind", "queue.unbind"), queue=("q",), routing_key=("k",)),)
    (line,) = parse("allow anyone to any")
    assert len(line.matches) == 1
    assert set(line.matches[0].method or ()) == {name for names in ACTS.values() for name in names}


@pytest.mark.parametrize(
    ("text", "what", "place"),
    [
        ('alow user "x" to any', "did you mean `allow`?", (1, 1)),
        ("allow user x to any", "a user's name is wanted here, in double quotes", (1, 12)),
        ('allow user "x"\nto any', "`to` is wanted here", (1, 15)),
        ('allow anyone to any\nallow user "x" to publsh', "did you mean `publish`?", (2, 19)),
        ('allow user "x" to consume exchange "a"', "what `consume` is about has no exchange", (1, 19)),
        ('allow user "x to any', "this text does not end on its line", (1, 12)),
        ('allow address "10.0.0.0/99" to any', "neither an IP address nor a network", (1, 15)),
        ("otherwise deny\nallow anyone to any", "nothing can follow `otherwise`", (2, 1)),
        ('allow anyone to publish exchange "regex:("', "is not a regular expression", (1, 34)),
        ("", "an empty list allows and denies nothing", (1, 1)),
        ("# nothing\n\n", "an empty list", (1, 1)),
        ("allow anyone publish", "`to` is wanted here", (1, 14)),
        ("allow anyone to publish, ", "is wanted here", (1, 26)),
        ('allow vhost "a" to connect vhost "b"', "the vhost is said before `to` already", (1, 20)),
        ("allow to any", "one of anyone, user, address, vhost is wanted here", (1, 7)),
        ("allow @", "`@` has no meaning here", (1, 7)),
        ('allow user "a" user "b" to any', "said twice", (1, 16)),
        ("allow anyone to any at", "one of exchange, queue, routing_key, vhost is wanted here", (1, 21)),
        ("otherwise deny it", "the line should end here", (1, 16)),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, what: str, place: tuple[int, int]) -> None:
    with pytest.raises(TextError) as raised:
        parse(text)
    message = str(raised.value)
    assert what in message
    assert f"(line {place[0]}, column {place[1]})" in message
    assert message.split("\n")[-1].index("^") == place[1] + 3


@given(
    st.lists(
        st.sampled_from(
            [
                "allow",
                "deny",
                "otherwise",
                "anyone",
                "user",
                "to",
                "any",
                "publish",
                "exchange",
                '"a"',
                ",",
                ";",
                "\n",
                "#",
            ]
        )
    ).map(" ".join)
    | st.text()
)
def test_a_list_is_parsed_or_refused(text: str) -> None:
    try:
        lines = parse(text)
    except TextError:
        return
    assert lines

"""The lines of an access list, and the errors of wrong ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.rules.access.access_list import ACTS, Line, parse
from amqproxy.rules.matching.operations import UNKNOWN, Operation
from amqproxy.rules.matching.tokens import TextError

ANY_TO_A = Operation(act="publish", exchange="a", routing_key=UNKNOWN)
ANY_TO_QUEUES = Operation(act="publish", exchange="", queue=UNKNOWN, routing_key=UNKNOWN)
IMPLIED = Operation(act="publish", exchange="", queue="q", routing_key="q", is_implied=True)


def test_a_line_has_client_operations_and_objects() -> None:
    text = """
    # who may publish
    allow user "orders-*", "ops" to publish, declare exchange "orders.*"; deny anyone to purge vhost "/"
    otherwise deny
    """
    assert parse(text) == (
        Line(
            "3",
            'allow user "orders-*", "ops" to publish, declare exchange "orders.*"',
            True,
            frozenset({"publish", "declare"}),
            {"user": ("orders-*", "ops")},
            {"exchange": ("orders.*",)},
        ),
        Line("3b", 'deny anyone to purge vhost "/"', False, frozenset({"purge"}), {"vhost": ("/",)}),
        Line("4", "otherwise deny", False, frozenset(ACTS), is_otherwise=True),
    )


@pytest.mark.parametrize(
    ("text", "acts"),
    [
        ('queue "q" routing_key "k"', {"publish", "bind", "unbind"}),
        ('queue "q"', {"publish", "consume", "get", "declare", "delete", "bind", "unbind", "purge"}),
        ('exchange "e"', {"publish", "declare", "delete", "bind", "unbind"}),
        ("", {*ACTS}),
    ],
)
def test_any_is_all_that_has_what_is_named(text: str, acts: set[str]) -> None:
    (line,) = parse(f"allow anyone to any {text}")
    assert line.acts == acts


@pytest.mark.parametrize(
    ("text", "operation", "does_hold"),
    [
        ('deny anyone to publish exchange "a"', Operation(act="publish", exchange="a", routing_key="k"), True),
        ('deny anyone to publish exchange "a"', Operation(act="bind", exchange="a", routing_key="k"), False),
        ('deny anyone to declare exchange "a"', Operation(act="declare", queue="a"), False),
        ('deny anyone to publish queue "q"', Operation(act="publish", exchange="", queue="q", routing_key="q"), True),
        ('deny anyone to publish queue "q"', Operation(act="publish", exchange="a", routing_key="q"), False),
        # a routing key that cannot be known may be any
        ('deny anyone to publish exchange "a" routing_key "k"', ANY_TO_A, True),
        ('allow anyone to publish exchange "a" routing_key "k"', ANY_TO_A, False),
        ('allow anyone to publish exchange "a" routing_key "*"', ANY_TO_A, True),
        ('allow anyone to publish exchange "a"', ANY_TO_A, True),
        ('deny anyone to publish routing_key "k"', ANY_TO_A, False),  # its publish was asked about
        ('deny anyone to publish queue "q"', ANY_TO_QUEUES, True),
        ('allow anyone to publish queue "q"', ANY_TO_QUEUES, False),
        # implied operations concern only lines that name them
        ('deny anyone to publish queue "q"', IMPLIED, True),
        ("deny anyone to publish", IMPLIED, False),
        ("otherwise deny", IMPLIED, False),
    ],
)
def test_what_a_line_is_about(text: str, operation: Operation, does_hold: bool) -> None:
    (line,) = parse(text)
    assert line.holds_of(operation) is does_hold


@pytest.mark.parametrize(
    ("text", "what", "place"),
    [
        ('alow user "x" to any', "did you mean `allow`?", (1, 1)),
        ("allow user x to any", "a user's name is wanted here, in double quotes", (1, 12)),
        ('allow user "x"\nto any', "`to` is wanted here", (1, 15)),
        ('allow anyone to any\nallow user "x" to publsh', "did you mean `publish`?", (2, 19)),
        ('allow user "x" to consume exchange "a"', "what `consume` is about has no exchange", (1, 19)),
        ('allow user "x to any', "this text is not closed on its line", (1, 12)),
        ('allow address "10.0.0.0/99" to any', "neither an IP address nor a network", (1, 15)),
        ("otherwise deny\nallow anyone to any", "nothing can follow `otherwise`", (2, 1)),
        ('allow anyone to publish exchange "regex:("', "is not a regular expression", (1, 34)),
        ("", "the list is empty: write at least one line", (1, 1)),
        ("# nothing\n\n", "the list is empty", (1, 1)),
        ("allow anyone publish", "`to` is wanted here", (1, 14)),
        ("allow anyone to publish, ", "is wanted here", (1, 26)),
        ('allow vhost "a" to connect vhost "b"', "the vhost is given before `to` already", (1, 20)),
        ("allow to any", "one of anyone, user, address, vhost is wanted here", (1, 7)),
        ("allow @", "`@` has no meaning here", (1, 7)),
        ('allow user "a" user "b" to any', "given twice", (1, 16)),
        ("allow anyone to any at", "one of exchange, queue, routing_key, vhost is wanted here", (1, 21)),
        ("otherwise deny it", "the line should end here", (1, 16)),
    ],
)
def test_errors_have_line_and_column(text: str, what: str, place: tuple[int, int]) -> None:
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

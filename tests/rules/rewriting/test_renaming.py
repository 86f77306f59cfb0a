"""Names, there and back."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091.methods import BasicPublish
from amqproxy.rules.rewriting.renaming import MAX_NAMES, Renaming, UsedNames, check_groups
from tests.rules.scene import from_client

SEEN = from_client(BasicPublish())


def renaming(**keys: Any) -> Renaming:
    return msgspec.convert({name.rstrip("_"): value for name, value in keys.items()}, Renaming)


@pytest.mark.parametrize(
    ("keys", "there"),
    [
        ({"to": "new"}, {"old": "new", "": "new", "amq.topic": "new"}),
        ({"to": "{user}.new"}, {"old": "guest.new"}),
        ({"from": "old", "to": "new"}, {"old": "new", "older": "older", "": ""}),
        ({"from": "is:a*", "to": "new"}, {"a*": "new", "ab": "ab"}),
        ({"from": ["a", "b"], "to": "new"}, {"a": "new", "b": "new", "c": "c"}),
        ({"from": "amq.topic", "to": "mine"}, {"amq.topic": "mine", "amq.direct": "amq.direct"}),
        ({"from": "o*", "to": "new"}, {"old": "new", "amq.o": "amq.o", "x": "x"}),
        ({"from": "*", "to": "new"}, {"old": "new", "amq.gen-1": "amq.gen-1", "": ""}),
        ({"from": "!a*", "to": "new"}, {"old": "new", "ab": "ab"}),
        ({"from": r"regex:(\w+)\.v(\d)", "to": r"v\2.\1"}, {"orders.v1": "v1.orders", "orders": "orders"}),
        ({"from": r"regex:(\w+)(\.x)?", "to": r"\1\2.{user}"}, {"a": "a.guest", "a.x": "a.x.guest", "amq.x": "amq.x"}),
        ({"from": "regex:.*", "to": "x"}, {"a\udcff": "a\udcff", "é": "x"}),
        ({"names": {"a": "b", "amq.topic": "t"}}, {"a": "b", "b": "b", "amq.topic": "t", "": ""}),
        ({"prefix": "p."}, {"a": "p.a", "p.a": "p.p.a", "": "", "amq.gen-1": "amq.gen-1"}),
        ({"prefix": "{user}."}, {"a": "guest.a"}),
        ({"suffix": ".s", "from": "a*"}, {"ab": "ab.s", "b": "b"}),
        ({"prefix": "p.", "suffix": ".s"}, {"a": "p.a.s"}),
        ({"strip_prefix": "p."}, {"p.a": "a", "a": "a", "p.": ""}),
        ({"strip_suffix": ".s", "prefix": "t."}, {"a.s": "t.a", "a": "a"}),
        ({"strip_prefix": "aa", "strip_suffix": "aa"}, {"aaa": "aaa", "aaaa": ""}),
    ],
)
def test_there(keys: dict[str, Any], there: dict[str, str]) -> None:
    made = renaming(**keys)
    assert {name: made.new(name, SEEN) for name in there} == there


@pytest.mark.parametrize(
    ("keys", "literal", "back"),
    [
        ({"to": "new"}, None, {"new": "new"}),
        ({"to": "new"}, "old", {"new": "old", "x": "x"}),
        ({"from": "old", "to": "new"}, None, {"new": "old", "x": "x"}),
        ({"from": ["a", "b"], "to": "new"}, None, {"new": "new"}),
        ({"from": r"regex:(.*)\.v1", "to": r"\1"}, None, {"a": "a"}),
        ({"names": {"a": "b", "c": "b"}}, None, {"b": "a", "c": "c"}),
        ({"prefix": "p."}, None, {"p.a": "a", "q.a": "q.a", "amq.gen-1": "amq.gen-1", "p.": "p.", "": ""}),
        ({"prefix": "{user}."}, None, {"guest.a": "a", "mallory.a": "mallory.a"}),
        ({"suffix": ".s", "from": "a*"}, None, {"ab.s": "ab", "b.s": "b.s"}),
        ({"strip_prefix": "p."}, None, {"a": "p.a", "amq.gen-1": "amq.gen-1", "": ""}),
        ({"strip_prefix": "p.", "prefix": "q."}, None, {"q.a": "p.a", "a": "a"}),
        ({"strip_prefix": "p" * 250}, None, {"short": "p" * 250 + "short", "toolong": "toolong"}),
    ],
)
def test_back_without_having_been_there(keys: dict[str, Any], literal: str | None, back: dict[str, str]) -> None:
    made = renaming(**keys)
    assert {new: made.old(new, SEEN, literal) for new in back} == back


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({}, "one of `to`, `names`"),
        ({"from": "a"}, "one of `to`, `names`"),
        ({"to": "a", "prefix": "b"}, "one of `to`, `names`"),
        ({"names": {"a": "b"}, "suffix": "b"}, "one of `to`, `names`"),
        ({"names": {"a": "b"}, "from": "b"}, "leave `from` out"),
        ({"prefix": "amq."}, "the broker's"),
        ({"prefix": "am"}, "the broker's"),
        ({"prefix": "amq.mine."}, "the broker's"),
        ({"prefix": "{routing_key}"}, "may depend only on the client"),
        ({"to": "{headers.x}"}, "may depend only on the client"),
        ({"to": "{nobody}"}, "not a known name"),
        ({"from": "regex:(", "to": "x"}, "not a regular expression"),
        ({"from": "regex:(a)", "to": r"\2"}, "refers to group 2"),
        ({"from": [], "to": "x"}, "the list is empty"),
        ({"too": "x"}, "unknown field"),
    ],
)
def test_what_makes_no_sense_is_not_loaded(keys: dict[str, Any], reason: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=reason):
        renaming(**keys)


def test_a_name_that_would_be_too_long_is_refused() -> None:
    made = renaming(prefix="p" * 10)
    assert made.new("a" * 245, SEEN) == "p" * 10 + "a" * 245
    with pytest.raises(ValueError, match="at most 255 bytes"):
        made.new("ü" * 123, SEEN)


def test_what_is_reversible() -> None:
    assert renaming(prefix="p").is_reversible
    assert renaming(names={"a": "b"}).is_reversible
    assert renaming(**{"from": "a", "to": "b"}).is_reversible
    assert not renaming(to="b").is_reversible
    assert not renaming(**{"from": "a*", "to": "b"}).is_reversible
    assert not renaming(strip_prefix="p").is_reversible


def test_used_names_are_bounded_and_the_latest_counts() -> None:
    used = UsedNames()
    used.note("a", "x")
    used.note("b", "x")
    assert (used.old("x"), used.new("a"), used.new("b")) == ("b", "x", "x")
    used.forget("x")
    assert (used.old("x"), used.new("b")) == (None, "x")
    for count in range(MAX_NAMES):
        used.note(f"n{count}", f"m{count}")
    assert (used.new("a"), used.new("n0"), used.old("m0")) == (None, "m0", "n0")


def test_groups_that_an_expression_has_not() -> None:
    check_groups(re.compile("(a)(b)"), r"\2 \1 \0 \\ x\n")
    with pytest.raises(ValueError, match="refers to group 3, but the expression has 2"):
        check_groups(re.compile("(a)(b)"), r"\3")


words = st.sampled_from(["", "a", "b", "p.", ".s", "p.a", "a.s", "p.a.s", "amq", "amq.", "amq.gen-1", "p", "x" * 40])
names = st.one_of(words, st.text("apq.ms", max_size=8), st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
affixes = st.sampled_from(["p.", "q", "é", "x.", "m", "s"])


@st.composite
def renamings(draw: st.DrawFn) -> Renaming:
    match draw(st.sampled_from(["affixes", "names", "literal", "regex"])):
        case "names":
            return Renaming(names=draw(st.dictionaries(names, names, min_size=1, max_size=3)))
        case "literal":
            return Renaming(source="is:" + draw(names), to=draw(names).replace("{", "").replace("}", ""))
        case "regex":
            return Renaming(source=r"regex:(\w*)\.(.*)", to=r"\2-\1")
    given = draw(st.sets(st.sampled_from(["prefix", "suffix", "strip_prefix", "strip_suffix"]), min_size=1))
    return Renaming(
        **{key: draw(affixes) for key in given},
        source=draw(st.sampled_from([None, "a*", "!a*", "regex:[a-z.]*"])),
    )


@given(renamings(), st.lists(names, min_size=1, max_size=8))
def test_back_is_where_one_came_from(made: Renaming, used: list[str]) -> None:
    """Whatever was used before; as `Rewrite` does it."""
    known = UsedNames()
    for name in used:
        new = made.new(name, SEEN)
        if made.old(new, SEEN) != name:
            known.note(name, new)
        else:
            known.forget(new)
        old = known.old(new)
        assert (made.old(new, SEEN) if old is None else old) == name


@given(
    st.sampled_from([{"prefix": "p."}, {"suffix": ".s"}, {"prefix": "x", "suffix": "y"}]), st.lists(names, unique=True)
)
def test_affixes_come_back_all_of_them_at_any_time(keys: dict[str, str], used: list[str]) -> None:
    made = Renaming(**keys)
    known = UsedNames()
    there = []
    for name in used:
        new = made.new(name, SEEN)
        there.append(new)
        if made.old(new, SEEN) != name:
            known.note(name, new)
        else:
            known.forget(new)
    back = [made.old(new, SEEN) if known.old(new) is None else known.old(new) for new in there]
    assert len(set(there)) < len(used) or back == used

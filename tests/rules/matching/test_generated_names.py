"""What in a name was generated, and the pattern of all such names."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.rules.matching.generated_names import Generated, parts_of, pattern_of, shape_of
from amqproxy.rules.matching.patterns import predicate
from tests.example_count import example_count

UUID = "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("orders", "orders"),
        ("orders-v2", "orders-v2"),
        ("amq.direct", "amq.direct"),
        ("amq.gen-JzTY20BRgKO-HjmUJj0wLg", "amq.gen-*"),
        ("amq.gen-", "amq.gen-*"),
        ("spring.gen-q0ehbJ5iRcC7aZXr3g9H1w", "spring.gen-*"),
        ("events.anonymous.spring.gen-q0ehbJ5iRcC7aZXr3g9H1w", "events.anonymous.spring.gen-*"),
        ("amq.rabbitmq.reply-to.g1h2AA==.x", "amq.rabbitmq.reply-to.*"),
        ("amq.rabbitmq.reply-to", "amq.rabbitmq.reply-to"),
        (f"reply.{uuid.UUID(int=7)}", rf"regex:reply\.{UUID}"),
        (f"{uuid.UUID(int=7)}.reply.celery.pidbox", rf"regex:{UUID}\.reply\.celery\.pidbox"),
        ("amq_7c9e6679742540de944be07fc1f90ae7", "regex:amq_[0-9A-Fa-f]{16,}"),
        ("deadbeefdeadbeef", "deadbeefdeadbeef"),
        ("day.20240131", r"regex:day\.[0-9]+"),
        ("is it*", "is:is it*"),
    ],
)
def test_what_is_certain_becomes_a_pattern(name: str, pattern: str) -> None:
    assert pattern_of(shape_of(name, certain=True)) == pattern


def test_a_short_number_is_generated_only_perhaps() -> None:
    number = parts_of("shard-7.x")[1]
    assert (number.generated, number.is_certain) == (Generated.NUMBER, False)
    assert pattern_of(shape_of("shard-7.x", certain=True)) == "shard-7.x"
    assert pattern_of(shape_of("shard-7.x", certain=False)) == r"regex:shard-[0-9]+\.x"


NAMES = st.one_of(
    st.text(max_size=30),
    st.lists(
        st.one_of(
            st.sampled_from(["amq.gen-", "amq.rabbitmq.reply-to.", ".", "-", "a", "é", "[x]", "\\", "\udcff"]),
            st.uuids().map(str),
            st.integers(0, 10**20).map(str),
            st.binary(min_size=4, max_size=12).map(bytes.hex),
        ),
        max_size=5,
    ).map("".join),
)


@settings(max_examples=example_count(60), deadline=None)
@given(NAMES, st.booleans())
def test_a_name_matches_its_pattern_and_its_parts_are_the_name(name: str, certain: bool) -> None:
    assert "".join(part.text for part in parts_of(name)) == name
    pattern = pattern_of(shape_of(name, certain=certain))
    if all(not 0xD800 <= ord(each) < 0xDC80 and not 0xDCFF < ord(each) < 0xE000 for each in name):
        assert predicate(pattern)(name)
    assert '"' not in pattern
    assert "\n" not in pattern


@settings(max_examples=example_count(60), deadline=None)
@given(st.text(max_size=20), st.text(max_size=20))
def test_an_exact_pattern_matches_no_other_name(name: str, other: str) -> None:
    shape = shape_of(name, certain=True)
    if shape == (name,) and other != name and "\ufffd" not in name + other:
        holds = predicate(pattern_of(shape))
        assert not holds(other)

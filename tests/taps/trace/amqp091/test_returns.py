"""Which publish is returned."""

from __future__ import annotations

from amqproxy.amqp091.properties import NO_PROPERTIES, Properties
from amqproxy.taps.trace.amqp091.returns import MAX_MANDATORY, PUBLISH_COST, MandatoryPublishes
from amqproxy.taps.trace.budget import Budget


def published(*keys: str, memory: int = 10_000_000, is_settled: bool = True) -> MandatoryPublishes:
    made = MandatoryPublishes(Budget(memory))
    for number, key in enumerate(keys, 1):
        made.add(number, "e", key, 5, NO_PROPERTIES, is_settled=is_settled)
    return made


def returned(publishes: MandatoryPublishes, key: str, properties: Properties = NO_PROPERTIES) -> int | None:
    return publishes.match("e", key, 5, properties)


def test_each_is_returned_once() -> None:
    publishes = published("a", "b")
    assert [returned(publishes, "b"), returned(publishes, "b")] == [2, None]


def test_all_that_it_holds_must_be_the_same() -> None:
    publishes = published("a")
    assert returned(publishes, "a", Properties(type="t")) is None
    assert publishes.match("ea", "", 5, NO_PROPERTIES) is None
    assert publishes.match("e", "a", 6, NO_PROPERTIES) is None
    assert returned(publishes, "a") == 1


def test_what_was_rewritten_has_kept_its_names_or_its_properties() -> None:
    for key, properties, is_known in (
        ("x", NO_PROPERTIES, True),
        ("b", Properties(type="t"), True),
        ("x", Properties(type="t"), False),
    ):
        publishes = published("a", "b")
        publishes.rewrite(2)
        assert returned(publishes, key, properties) == (2 if is_known else None)


def test_which_of_two_that_were_rewritten_is_returned_is_not_known() -> None:
    publishes = published("a")
    publishes.rewrite(1)
    publishes.add(2, "e", "b", 5, NO_PROPERTIES, is_settled=True)
    assert returned(publishes, "b") is None
    publishes.settle(1, 1, 2)
    assert returned(publishes, "b") == 2


def test_which_of_two_alike_is_returned_is_not_known_until_one_is_settled() -> None:
    publishes = published("a", "a")
    assert returned(publishes, "a") is None
    publishes.settle(1, 1, 2)
    assert returned(publishes, "a") == 2


def test_what_was_forgotten_may_be_returned_until_it_is_settled() -> None:
    publishes = published(*"a" * (MAX_MANDATORY + 1))
    publishes.settle(2, MAX_MANDATORY, 1)
    assert returned(publishes, "a") is None
    publishes.settle(1, 1, MAX_MANDATORY + 1)
    assert returned(publishes, "a") == MAX_MANDATORY + 1


def test_what_was_forgotten_and_is_never_settled_may_be_returned_for_ever() -> None:
    publishes = published("a", "b", memory=PUBLISH_COST, is_settled=False)
    publishes.settle(1, 2, 3)
    publishes.add(3, "e", "c", 5, NO_PROPERTIES, is_settled=True)
    assert returned(publishes, "c") is None

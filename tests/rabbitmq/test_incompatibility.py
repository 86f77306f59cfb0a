"""Uses that a later RabbitMQ refuses, takes differently, or has deprecated."""

from __future__ import annotations

import tomllib

import pytest

from amqproxy.rabbitmq.incompatibility import (
    FRAME_MAX,
    GLOBAL_QOS,
    INCOMPATIBILITIES,
    QUEUE_MASTER_LOCATOR,
    TRANSIENT_QUEUE,
    Incompatibility,
    Level,
    profile_of,
)
from amqproxy.rabbitmq.profile import NEWEST, OLDEST, PROFILES

EVERY = pytest.mark.parametrize("each", INCOMPATIBILITIES.values(), ids=INCOMPATIBILITIES)


@EVERY
def test_the_oldest_version_does_not_differ_and_the_newest_does(each: Incompatibility) -> None:
    assert each.effect(OLDEST) is None
    assert each.effect(PROFILES[NEWEST]) is not None


@EVERY
def test_it_is_told_in_sentences(each: Incompatibility) -> None:
    assert each.kind.startswith("rabbitmq4-")
    assert each.why.endswith(".")
    assert each.remedy.endswith(".")


@EVERY
def test_its_rules_are_named_for_it(each: Incompatibility) -> None:
    names = [rule["name"] for rule in tomllib.loads(each.rule).get("rules", ())]
    assert all(name.startswith(each.kind) for name in names)
    assert names.count(each.kind) == bool(names)


@pytest.mark.parametrize(
    ("version", "name"),
    [
        ("3.8.9", "3.10"),
        ("3.10.8", "3.10"),
        ("3.13.7", "3.10"),
        ("4.0.5", "4.0"),
        ("4.2.1", "4.0"),
        ("4.3.6", "4.3"),
        ("4.10.0", "4.3"),
        ("5.0.0", "4.3"),
        ("", "3.10"),
        ("%%VSN%%", "3.10"),
    ],
)
def test_a_version_has_the_profile_of_the_last_known_one(version: str, name: str) -> None:
    assert profile_of(version).name == name


def test_a_deprecated_feature_breaks_where_the_operator_denies_it() -> None:
    target = PROFILES["4.3"]
    levels = {
        (each.kind, is_permitted): found.level
        for each, feature in (
            (TRANSIENT_QUEUE, "transient_nonexcl_queues"),
            (GLOBAL_QOS, "global_qos"),
            (QUEUE_MASTER_LOCATOR, "queue_master_locator"),
        )
        for is_permitted in (True, False)
        if (found := each.effect(target.switching({feature: is_permitted})))
    }
    assert levels == {
        (TRANSIENT_QUEUE.kind, True): Level.DEPRECATED,
        (TRANSIENT_QUEUE.kind, False): Level.BREAKS,
        (GLOBAL_QOS.kind, True): Level.DEPRECATED,
        (GLOBAL_QOS.kind, False): Level.CHANGES,
        (QUEUE_MASTER_LOCATOR.kind, True): Level.DEPRECATED,
        (QUEUE_MASTER_LOCATOR.kind, False): Level.BREAKS,
    }


def test_the_worst_level_comes_first() -> None:
    assert sorted(Level, key=lambda each: each.rank) == [Level.BREAKS, Level.CHANGES, Level.DEPRECATED]
    found = FRAME_MAX.effect(PROFILES["4.3"])
    assert found is not None
    assert found.level is Level.BREAKS

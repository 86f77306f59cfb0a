"""Never more than the rate allows for any group, and bounded memory of groups."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.rules.limits.token_bucket import FORGOTTEN_AT_ONCE, Buckets, TokenBucket

rates = st.floats(0.1, 1000)
bursts = st.floats(1, 1000)
pauses = st.floats(0, 10)


def test_a_bucket_is_full_at_first_and_fills_again() -> None:
    bucket = TokenBucket(rate=2, burst=4, now=100)
    assert bucket.wait(4, 100) == 0
    bucket.spend(4, 100)
    assert bucket.wait(1, 100) == 0.5
    assert bucket.level(101) == 2
    assert not bucket.is_full(101)
    assert bucket.is_full(102)
    assert bucket.level(1000) == 4


def test_what_is_owed_is_waited_for() -> None:
    bucket = TokenBucket(rate=1, burst=1, now=0)
    bucket.spend(3, 0)
    assert bucket.wait(1, 0) == 3
    assert bucket.until(0.5, 0) == 2.5
    assert bucket.until(2, 0) == math.inf


def test_what_cannot_be_waited_for_is_not_taken() -> None:
    bucket = TokenBucket(rate=1, burst=1, now=0)
    assert bucket.take(1, 0, patience=0) == 0
    assert bucket.take(1, 0, patience=0.5) == -1
    assert bucket.take(1, 0, patience=1) == 1
    assert bucket.level(0) == -1


def test_more_than_a_burst_waits_for_a_full_bucket() -> None:
    bucket = TokenBucket(rate=1, burst=2, now=0)
    bucket.spend(1, 0)
    assert bucket.wait(10, 0) == 1


def test_a_clock_that_goes_back_adds_nothing() -> None:
    bucket = TokenBucket(rate=1, burst=1, now=10)
    bucket.spend(1, 10)
    assert bucket.level(5) == 0
    assert bucket.level(10) == 0


@given(
    rate=rates,
    burst=bursts,
    asked=st.lists(st.tuples(pauses, st.floats(0, 1)), min_size=1, max_size=60),
    waits=st.booleans(),
)
def test_never_more_than_rate_and_burst(
    rate: float, burst: float, asked: list[tuple[float, float]], waits: bool
) -> None:
    """In any stretch of time, whether those who come too soon wait or are turned away."""
    bucket = TokenBucket(rate, burst, 0)
    now, passed = 0.0, []
    for pause, share in asked:
        now += pause
        amount = share * burst
        wait = bucket.wait(amount, now)
        assert wait >= 0
        if waits or not wait:
            bucket.spend(amount, now)
            passed.append((round(now + wait, 6), amount))
    assert passed == sorted(passed, key=lambda each: each[0]), "none overtakes"
    for first, (start, _) in enumerate(passed):
        total = 0.0
        for at, amount in passed[first:]:
            total += amount
            assert total <= rate * (at - start + 2e-6) + burst + 1e-6 * max(total, 1)


@given(
    rate=rates,
    burst=bursts,
    asked=st.lists(st.tuples(pauses, st.sampled_from(["unseen", "asked", "settled"])), min_size=1, max_size=60),
)
def test_what_is_spent_unseen_is_never_more_than_rate_and_burst(
    rate: float, burst: float, asked: list[tuple[float, str]]
) -> None:
    """Whoever spends it, and whenever that is noted."""
    bucket = TokenBucket(rate, burst, 0)
    now, passed = 0.0, []
    for pause, how in asked:
        now += pause
        if how == "settled":
            bucket.settle(now)
        elif how == "asked" and bucket.take(1, now, patience=0) == 0:
            passed.append(now)
        elif how == "unseen" and bucket.left >= 1:
            bucket.left -= 1
            bucket.spent += 1
            passed.append(now)
    for first, start in enumerate(passed):
        for count, at in enumerate(passed[first:], start=1):
            assert count <= rate * (at - start) + burst + 1e-6 * count


@given(rate=rates, burst=bursts, asked=st.lists(st.tuples(pauses, st.integers(0, 5)), max_size=40))
def test_what_is_noted_at_once_counts_as_if_it_had_been_asked_for(
    rate: float, burst: float, asked: list[tuple[float, int]]
) -> None:
    bucket, other = TokenBucket(rate, burst, 0), TokenBucket(rate, burst, 0)
    now = 0.0
    for pause, count in asked:
        now += pause
        unseen = min(count, int(bucket.left))
        bucket.left -= unseen
        bucket.spent += unseen
        bucket.settle(now)
        for _ in range(unseen):
            assert other.take(1, now, patience=0) == 0
        assert bucket.level(now) == pytest.approx(other.level(now))


def test_of_a_bucket_that_was_forgotten_nothing_is_left() -> None:
    buckets = Buckets(rate=1, burst=1)
    first = buckets.own("a", 0)
    assert first is not None
    assert first is buckets.own("a", 0)
    assert buckets.own("b", 0) is not first
    assert first.is_over
    assert first.level(100) < 0
    assert Buckets(rate=1, burst=1, most=0).own("a", 0) is None


@given(rate=rates, amounts=st.lists(st.floats(0, 5000), min_size=1, max_size=30))
def test_what_waits_is_not_kept_longer_than_it_must(rate: float, amounts: list[float]) -> None:
    """All at once: the last leaves as soon as all before it have been paid for."""
    bucket = TokenBucket(rate, 10, 0)
    spent = 0.0
    for amount in amounts:
        wait = bucket.wait(amount, 0)
        assert wait == pytest.approx(max(0.0, (spent - 10 + min(amount, 10)) / rate), abs=1e-6)
        bucket.spend(amount, 0)
        spent += amount


# ------------------------------------------------------------------------------------------------- of many


def test_each_group_has_its_own() -> None:
    buckets = Buckets(rate=1, burst=1)
    buckets.of("a", 0).spend(1, 0)
    assert buckets.of("a", 0).level(0) == 0
    assert buckets.of("b", 0).level(0) == 1
    assert len(buckets) == 2


def test_full_buckets_are_forgotten() -> None:
    buckets = Buckets(rate=1, burst=1)
    for number in range(10):
        buckets.of(number, 0).spend(1, 0)
    assert len(buckets) == 10
    buckets.of("later", 1)
    assert len(buckets) == 10 - FORGOTTEN_AT_ONCE + 1
    for number in range(5):
        buckets.of(f"still later {number}", 2).spend(1, 2)
    assert len(buckets) == 5


def test_those_who_find_no_room_share_one() -> None:
    buckets = Buckets(rate=1, burst=1, most=2)
    for group in "ab":
        buckets.of(group, 0).spend(1, 0)
    buckets.of("c", 0).spend(1, 0)
    assert buckets.of("d", 0).level(0) == 0
    assert len(buckets) == 2


@given(
    sent=st.lists(st.tuples(pauses, st.integers(0, 8)), max_size=80),
    most=st.integers(1, 4),
)
def test_forgetting_gives_no_group_more(sent: list[tuple[float, int]], most: int) -> None:
    """However few buckets are kept, a group passes no more than if it had its own for good."""
    buckets, alone = Buckets(1, 3, most), {group: TokenBucket(1, 3, 0) for group in range(9)}
    now = 0.0
    for pause, group in sent:
        now += pause
        bucket = buckets.of(group, now)
        assert len(buckets) <= most
        assert bucket.level(now) <= alone[group].level(now) + 1e-9
        if not bucket.wait(1, now):
            bucket.spend(1, now)
            alone[group].spend(1, now)
